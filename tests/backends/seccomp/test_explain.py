"""The helper's failures in words: which layer, and what to do."""

from __future__ import annotations

import errno
import os

import pytest

from isandbox import BackendUnavailableError, ConfigurationError, SandboxError, UnsupportedError
from isandbox_backends._shared.client import HelperStartError
from isandbox_backends.seccomp import explain

CASES = [
    (("create namespaces", "", errno.EPERM), "the layer user_namespace: ", "seccomp=unconfined"),
    (("create namespaces", "", errno.ENOSPC), "the layer user_namespace: ", "sysctl -w user.max_user_namespaces="),
    (("create namespaces", "network", errno.EPERM), "the layer net_namespace: ", "apparmor_restrict_unprivileged_userns=0"),
    (("create namespaces", "network", errno.ENOSPC), "the layer net_namespace: ", "user.max_"),
    (("idmap", "clone", errno.EPERM), "the layer user_namespace: ", "seccomp=unconfined"),
    (("ids", "", errno.EINVAL), "the layer ids: ", "run isandbox there as an ordinary user"),
    (("ids", "", errno.EPERM), "the layer ids: ", "ids='single'"),
    (("private mounts", "", errno.EACCES), "the layer mount_namespace: ", "apparmor_restrict_unprivileged_userns=0"),
    (("mount proc", "proc", errno.EPERM), "the layer mounts: ", "systempaths=unconfined"),
    (("landlock", "version", errno.ENOSYS), "the layer landlock: ", "CONFIG_SECURITY_LANDLOCK"),
    (("landlock", "version", errno.EOPNOTSUPP), "the layer landlock: ", "lsm="),
    (("landlock", "restrict", errno.E2BIG), "the layer landlock: ", "waive={'landlock'}"),
    (("keyring", "", errno.ENOSYS), "the layer keyring: ", "waive={'keyring'}"),
    (("hostname", "sandbox", errno.EPERM), "the layer uts_namespace: ", "waive={'uts_namespace'}"),
    (("seccomp", "load", errno.EINVAL), "the layer seccomp: ", "CONFIG_SECCOMP_FILTER"),
    (("no_new_privs", "", errno.EPERM), "the layer no_new_privs: ", ""),
    (("bounding set", "", errno.EPERM), "the layer capabilities: ", ""),
    (("securebits", "", errno.EPERM), "the layer capabilities: ", ""),
    (("dumpable", "", errno.EPERM), "the layer dumpable: ", ""),
]


@pytest.mark.parametrize(("failure", "layer", "advice"), CASES, ids=str)
def test_each_failure_names_its_layer(failure: tuple[str, str, int], layer: str, advice: str) -> None:
    """A layer that cannot be made: the backend cannot run here, which layer it is, what to do, and what the kernel said."""
    stage, subject, number = failure
    error = explain.explain(HelperStartError(number, stage, subject))
    assert isinstance(error, BackendUnavailableError)
    assert str(error).startswith(f"the seccomp backend cannot run here: {layer}")
    assert advice in str(error)
    assert os.strerror(number) in str(error)


@pytest.mark.parametrize("name", ["ipc", "uts", "cgroup"])
def test_a_kernel_without_a_kind_of_namespace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """EINVAL from clone: the kind that /proc does not list is named, with its waiver."""
    there = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: not str(path).endswith(f"/ns/{name}") and there(path))
    error = explain.explain(HelperStartError(errno.EINVAL, "create namespaces", ""))
    assert f"the layer {name}_namespace: this kernel was built without it; waive={{'{name}_namespace'}}" in str(error)


@pytest.mark.parametrize(
    ("uid", "advice"), [(0, "run it as an ordinary user"), (1000, "apparmor_restrict_unprivileged_userns")]
)
def test_ids_that_cannot_be_mapped(uid: int, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root in a container without a range of ids and a user under AppArmor fail alike, and are told different things."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    error = explain.explain(HelperStartError(errno.EPERM, "map ids", "/proc/7/uid_map"))
    assert isinstance(error, BackendUnavailableError)
    assert "the layer ids: " in str(error)
    assert advice in str(error)


def test_root_that_may_not_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root without CAP_SYS_ADMIN is told so; a user whom AppArmor has left without rights is told that."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "CAP_SYS_ADMIN is missing" in str(explain.explain(HelperStartError(errno.EPERM, "clone mount", "/usr")))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "has no rights in them" in str(explain.explain(HelperStartError(errno.EPERM, "clone mount", "/usr")))


def test_what_is_no_layer_is_told_as_it_is() -> None:
    """A mount that cannot be had is the caller's affair; what nobody knows is told as the helper told it."""
    assert isinstance(explain.explain(HelperStartError(errno.EINVAL, "id-mapped mount", "/data")), UnsupportedError)
    error = explain.explain(HelperStartError(errno.ELOOP, "mount point", "workspace/x"))
    assert isinstance(error, ConfigurationError)
    assert "mount point /workspace/x: " in str(error)
    unknown = explain.explain(HelperStartError(errno.EMFILE, "serve", "signalfd"))
    assert type(unknown) is SandboxError
    assert "serve signalfd" in str(unknown)
