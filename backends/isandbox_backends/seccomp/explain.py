"""The helper's failures in words that say what to do."""

from __future__ import annotations

import os
from errno import EACCES, EPERM
from typing import TYPE_CHECKING

from isandbox.errors import BackendUnavailableError, ConfigurationError, SandboxError, UnsupportedError

if TYPE_CHECKING:
    from isandbox_backends._shared.client import HelperStartError

# stage of the helper -> what is missing and the command that fixes it
_MISSING = {
    "create namespaces": (
        "it may not make namespaces. In a container: run that with --security-opt seccomp=unconfined "
        "--security-opt systempaths=unconfined. On Ubuntu: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    ),
    "clone mount": (
        "it may not mount (CAP_SYS_ADMIN is missing). In a container: run it as an ordinary user there, and that with "
        "--security-opt seccomp=unconfined --security-opt systempaths=unconfined"
    ),
    "mount proc": (
        "it may not mount a /proc of its own, because parts of this one are masked. In a container: run that with "
        "--security-opt systempaths=unconfined"
    ),
    "ids": (
        "it may not take ids of its own. In a container: run it as an ordinary user there. On Ubuntu: "
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0. As an ordinary user ids='single' does without"
    ),
    "landlock": "this kernel has no Landlock (CONFIG_SECURITY_LANDLOCK, Linux 5.13); waive={'landlock'} runs without that layer",
}


def explain(error: HelperStartError) -> SandboxError:
    """The error for a start that failed. Whatever is not known here is told as the helper told it."""
    if error.stage in _MISSING:
        return BackendUnavailableError(f"the seccomp backend cannot run here: {_MISSING[error.stage]} ({error})")
    if error.stage in ("map ids", "idmap") and error.errno in (EPERM, EACCES):
        return BackendUnavailableError(f"the seccomp backend may not map ids: run it as an ordinary user ({error})")
    if error.stage == "id-mapped mount":
        return UnsupportedError(
            f"{error.subject}: its file system has no id-mapped mounts, so that files made inside would not belong to the "
            f"owner of the directory; use mode='ro', or run as that owner ({error})",
            option="mounts",
            backend="seccomp",
        )
    if error.stage in ("mount point", "open mount source"):
        return ConfigurationError(
            f"{error.stage} {error.subject}: {os.strerror(error.errno)}; it must exist and lead through no symbolic link"
        )
    return SandboxError(f"the sandbox did not start: {error}")
