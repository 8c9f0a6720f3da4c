"""The one place that looks at the real host for the checks."""

from __future__ import annotations

import os
import platform
import stat
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from isandbox.cli.doctor.view import HostView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox.cli.doctor.backends import Finding

FILES = (
    "/etc/os-release",
    "/etc/subgid",
    "/etc/subuid",
    "/proc/1/cgroup",
    "/proc/filesystems",
    "/proc/self/attr/current",
    "/proc/self/mountinfo",
    "/proc/self/status",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/user/max_user_namespaces",
    "/sys/fs/selinux/enforce",
    "/sys/kernel/security/lsm",
)
PATHS = ("/.dockerenv", "/run/.containerenv", "/run/docker.sock", "/run/systemd/system", "/var/run/docker.sock")
PROGRAMS = ("cc", "clang", "gcc", "grubby", "newgidmap", "newuidmap")
_VARIABLES = ("DOCKER_HOST", "XDG_RUNTIME_DIR", "container")
_SYSTEM = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_MOST = 1 << 20


def read_host(native: Finding | None, env: Mapping[str, str] | None = None) -> HostView:
    """``native``: what was found of the `seccomp` backend."""
    env = os.environ if env is None else env
    runtime = env.get("XDG_RUNTIME_DIR") or f"/run/user/{_uid()}"
    helper = helper_file()
    capabilities = native.capabilities if native is not None else None
    return HostView(
        platform=sys.platform,
        release=platform.release(),
        uid=_uid(),
        user=_user(),
        files={path: text for path in FILES if (text := _text(path)) is not None},
        present=frozenset(path for path in (*PATHS, f"{runtime}/docker.sock") if os.path.exists(path)),
        programs=frozenset(name for name in PROGRAMS if _is_installed(name, env.get("PATH", ""))),
        env={name: env[name] for name in _VARIABLES if env.get(name)},
        helper=helper,
        helper_built=os.path.isfile(helper),
        native="it was not asked" if native is None else native.reason,
        layers={} if native is None else native.layers,
        memory="" if capabilities is None else capabilities.quota("memory").kind,
    )


def helper_file() -> str:
    """Where the native helper is, or would be: a file of the package of backends, which is never imported by its name here."""
    spec = find_spec("isandbox_backends")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return os.path.realpath(os.path.join(places[0], "_bin", "isandbox-helper")) if places else ""


def _uid() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _user() -> str:
    with suppress(KeyError, ImportError):  # an id without an entry; a system without such a data base
        import pwd

        return pwd.getpwuid(_uid()).pw_name
    return ""


def _text(path: str) -> str | None:
    """``None`` where it is not there, or not for us: also a file whose module refuses to answer (EINVAL), and what is no file: in a
    container that somebody else has made it may be a pipe without a writer.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, encoding="utf-8", errors="replace", opener=_calm) as file:
            return file.read(_MOST)
    except OSError:
        return None


def _calm(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _is_installed(name: str, path: str) -> bool:
    return any(os.access(os.path.join(place, name), os.X_OK) for place in (*path.split(os.pathsep), *_SYSTEM) if place)
