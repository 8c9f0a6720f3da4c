"""The helper's failures in words that say what to do."""

from __future__ import annotations

import os
from errno import EACCES, EINVAL, ENOENT, ENOSPC, ENOSYS, ENOTDIR, EOPNOTSUPP, EPERM
from typing import TYPE_CHECKING

from isandbox._text import plain
from isandbox.errors import BackendUnavailableError, ConfigurationError, SandboxError, UnsupportedError
from isandbox_backends._shared.plan import NAMESPACES
from isandbox_backends._shared.protocol import Layer
from isandbox_backends.seccomp.layers import WAIVABLE_NAMES

if TYPE_CHECKING:
    from isandbox_backends._shared.client import HelperStartError

_NOT_ALLOWED = (
    "it may not make namespaces. In a container: start it with --security-opt seccomp=unconfined "
    "--security-opt systempaths=unconfined. On Ubuntu: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
)
# AppArmor lets anybody make a user namespace and takes the capabilities in it away: the first thing that needs one fails.
_POWERLESS = (
    "it may make namespaces, but has no rights in them. On Ubuntu: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0. In a "
    "container: start it with --security-opt apparmor=unconfined --security-opt seccomp=unconfined"
)
_MASKED_PROC = (
    "it may not mount a /proc of its own, because parts of this one are masked. In a container: start it with "
    "--security-opt systempaths=unconfined"
)
_NO_IDS = (
    "it may not take ids of its own. In a container: run isandbox there as an ordinary user. On Ubuntu: "
    "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0. As an ordinary user ids='single' does without"
)
_NO_MOUNTS = (
    "it may not mount (CAP_SYS_ADMIN is missing). In a container: run isandbox there as an ordinary user, and start the container with "
    "--security-opt seccomp=unconfined --security-opt systempaths=unconfined"
)
_TOO_MANY = "all namespaces that may be made are in use: sysctl -w user.max_user_namespaces=65536 (also the other user.max_*)"
_FILTER = "this kernel has no system call filters, or may not load one: it needs CONFIG_SECCOMP_FILTER"
_MAKING = {ENOSPC: _TOO_MANY, EINVAL: "this kernel was built without it"}
# By stage, whatever the kernel said; and by stage and what it said.
_ALWAYS = {"mount proc": _MASKED_PROC, "seccomp": _FILTER, "ids": _NO_IDS}
_EXACTLY = {
    ("landlock", ENOSYS): "this kernel has no Landlock (CONFIG_SECURITY_LANDLOCK, Linux 5.13)",
    ("landlock", EOPNOTSUPP): "Landlock is built into this kernel but not switched on: add landlock to its boot option lsm=",
    ("keyring", ENOSYS): "this kernel has no keyrings (CONFIG_KEYS)",
}
_REFUSED = (EPERM, EACCES)
# stage of the helper -> the layer that it belongs to
_LAYERS = {
    "create namespaces": Layer.USER_NAMESPACE,
    "ids": Layer.IDS,
    "map ids": Layer.IDS,
    "setgroups": Layer.GROUPS,
    "setresgid": Layer.IDS,
    "setresuid": Layer.IDS,
    "private mounts": Layer.MOUNT_NAMESPACE,
    "mount proc": Layer.MOUNTS,
    "hostname": Layer.UTS_NAMESPACE,
    "network": Layer.NET_NAMESPACE,
    "loopback": Layer.NET_NAMESPACE,
    "keyring": Layer.KEYRING,
    "securebits": Layer.CAPABILITIES,
    "ambient capabilities": Layer.CAPABILITIES,
    "bounding set": Layer.CAPABILITIES,
    "capset": Layer.CAPABILITIES,
    "capget": Layer.CAPABILITIES,
    "capabilities": Layer.CAPABILITIES,
    "dumpable": Layer.DUMPABLE,
    "no_new_privs": Layer.NO_NEW_PRIVS,
    "landlock": Layer.LANDLOCK,
    "landlock path": Layer.LANDLOCK,
    "landlock rule": Layer.LANDLOCK,
    "seccomp": Layer.SECCOMP,
}
# What the first use of a capability in a user namespace can be.
_FIRST_USES = frozenset(
    {
        "create namespaces",
        "map ids",
        "setgroups",
        "setresgid",
        "setresuid",
        "private mounts",
        "clone mount",
        "mount",
        "network",
    }
)


def explain(error: HelperStartError) -> SandboxError:
    """The error for a start that failed. Whatever is not known here is told as the helper told it."""
    if error.stage == "id-mapped mount":
        return UnsupportedError(
            f"{plain(error.subject)}: its file system has no id-mapped mounts, so that files made inside would not belong to the "
            f"owner of the directory; use mode='ro', or run as that owner ({error})",
            option="mounts",
            backend="seccomp",
        )
    if (place := _place(error)) is not None:
        # Places inside are told as the plan has them, relative to the sandbox's root.
        path = error.subject if error.subject.startswith("/") else f"/{error.subject}"
        return ConfigurationError(f"{error.stage} {plain(path)}: {os.strerror(error.errno)}; {place}")
    layer, why = _layer(error), _why(error)
    if layer is None and why is None:
        return SandboxError(f"the sandbox did not start: {error}")
    names = f"the layer {layer}: " if layer else ""
    waiver = f"; waive={{'{layer}'}} runs without that layer" if layer in WAIVABLE_NAMES else ""
    return BackendUnavailableError(
        f"the seccomp backend cannot run here: {names}{why or 'it cannot be had'}{waiver} ({error})"
    )


def _layer(error: HelperStartError) -> str | None:
    """The name of the layer that could not be made."""
    if _is_making(error):
        if error.subject == "network":
            return Layer.NET_NAMESPACE.word
        lacking = _unknown_namespaces() if error.errno == EINVAL else []
        return f"{lacking[0]}_namespace" if lacking else Layer.USER_NAMESPACE.word
    layer = _LAYERS.get(error.stage)
    return layer.word if layer else None


def _is_making(error: HelperStartError) -> bool:
    """An id-mapped mount, which root has for what it mounts, needs a user namespace too."""
    return error.stage == "create namespaces" or (error.stage, error.subject) == ("idmap", "clone")


def _unknown_namespaces() -> list[str]:
    """The kinds that this kernel does not have."""
    return [name.replace("mnt", "mount") for name in NAMESPACES if not os.path.lexists(f"/proc/self/ns/{name}")]


def _why(error: HelperStartError) -> str | None:
    stage, number = error.stage, error.errno
    if _is_making(error) and (number in _MAKING or error.subject != "network"):
        return _MAKING.get(number, _NOT_ALLOWED)
    if stage in ("map ids", "idmap") and number in _REFUSED and os.geteuid() == 0:
        return "it may not map ids: run it as an ordinary user"
    if stage == "clone mount" and number in _REFUSED and os.geteuid() == 0:
        return _NO_MOUNTS
    if stage in _FIRST_USES and number in _REFUSED:
        return _POWERLESS
    return _ALWAYS.get(stage) or _EXACTLY.get((stage, number))


def _place(error: HelperStartError) -> str | None:
    """What is wrong with a place that the caller named, where it is that."""
    if error.stage in ("mount point", "open mount source"):
        return "it must exist and lead through no symbolic link"
    if error.stage in ("mount", "clone mount", "stat mount source") and error.errno in (ENOENT, ENOTDIR, EINVAL):
        return "a directory stands on a directory, a file on a file, and neither may be removed meanwhile"
    if error.stage == "cover":
        return "it is to be hidden, and cannot be; mount a directory that does not hold it, or one that you may read"
    return None
