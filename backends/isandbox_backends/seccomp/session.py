"""Where the credentials, agents and other sandboxes of this user and machine are, looked up when a sandbox is created."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import tempfile
from collections.abc import Iterable, Sequence
from functools import lru_cache

from isandbox._settings import environment, read_state_variables
from isandbox._text import plain
from isandbox.errors import ConfigurationError, SandboxError
from isandbox_backends._shared.portable import check_files_open
from isandbox_backends.seccomp.hidden import MACHINE, TEMPORARY, VARIABLES, below, of_environment, of_home

Variables = tuple[tuple[str, str], ...]
# Homes of services that have no home: a mount of /usr or /bin is of programs.
_NO_HOMES = ("/usr", "/bin", "/sbin", "/dev", "/proc", "/sys", "/nonexistent")
# Where it cannot be made now, no sandbox of ours will be kept there later.
_NEVER = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ELOOP})


def hidden_below(mounted: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each of these directories of the host the real paths below it that it must not show, whether they exist or not.

    A fixed list of names below the homes in the user data base and $HOME, fixed places of the machine, what variables of the
    environment name; where the machine's or the user's own entries are links, what they lead to; and names with certain beginnings in a
    temporary directory. No tree is searched. Raises `SandboxError` when the user data base, or a temporary directory that is
    mounted, cannot be read.
    """
    variables, uid = environment(VARIABLES), os.geteuid()
    places = _places(variables, uid, _stamps(_own(variables, uid)[1]))
    found = {}
    for path in mounted:
        listed = [place for top in _temporary() if f"{top}/".startswith(f"{path}/") for place in _listed(top)]
        found[path] = (*below(path, places), *listed)
    return found


def hide_state(mounted: Iterable[str]) -> None:
    """Make the directory of this user's detached sandboxes where one of ``mounted`` would show it, as it is covered only if it is
    there: one that was made later would be seen, and who runs under our uid can connect to what is in it.

    Raises `ConfigurationError` for a mount of it or of what is in it, and `SandboxError` when it cannot be made just now.
    """
    from isandbox._state.directory import choose_path, make_all

    try:
        path = choose_path(read_state_variables(), os.geteuid())
    except ConfigurationError:  # there is no place for one
        return
    real = _real(path)
    for place in mounted:
        if f"{place}/".startswith(f"{real}/"):
            raise ConfigurationError(
                f"{plain(place)} is where your detached sandboxes are kept; code inside could take them over. Mount something else"
            )
    if not any(real.startswith(f"{place.rstrip('/')}/") for place in mounted):
        return
    try:
        make_all(path)
    except OSError as error:
        if error.errno not in _NEVER:
            raise SandboxError(
                f"{plain(path)} is in a directory that is mounted, and cannot be made to be hidden there: {error.strerror}"
            ) from error


def own_homes() -> tuple[str, ...]:
    """Real paths of the home directories of the user who runs this: $HOME, and the one in the user data base."""
    return _homes(environment(("HOME",)), os.geteuid())


@lru_cache(maxsize=8)
def _homes(variables: Variables, uid: int) -> tuple[str, ...]:
    named = [dict(variables).get("HOME", ""), *(entry.pw_dir for entry in _users(uid) if entry.pw_uid == uid)]
    return tuple(dict.fromkeys(_real(home) for home in named if home.startswith("/") and home != "/"))


@lru_cache(maxsize=8)
def _users(uid: int) -> tuple[pwd.struct_passwd, ...]:
    """What the user data base lists, and this user and root, whom some sources know by number only. Raises `SandboxError`
    where it cannot be read just now: that it lists nobody would be remembered, and homes be shown.
    """
    found = list(pwd.getpwall())
    for number in (uid, 0):
        with contextlib.suppress(KeyError):  # an id without an entry
            found.append(pwd.getpwuid(number))
    try:
        check_files_open()
    except OSError as error:
        raise SandboxError(f"what to hide in a mounted directory cannot be looked up: {error}") from error
    return tuple(found)


@lru_cache(maxsize=8)
def _own(variables: Variables, uid: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is hidden of this user, and the directories that it is in."""
    homes = _homes(tuple(item for item in variables if item[0] == "HOME"), uid)
    own = [*(place for home in homes for place in of_home(home)), *of_environment(dict(variables))]
    return tuple(own), tuple(dict.fromkeys(os.path.dirname(place) for place in own))


def _stamps(directories: Iterable[str]) -> tuple[int, ...]:
    """What changes when an entry of one of them does."""
    return tuple(_stamp(directory) for directory in directories)


def _stamp(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=8)
def _places(variables: Variables, uid: int, stamps: tuple[int, ...]) -> Sequence[str]:
    """Sorted. ``stamps`` is in the key only: links are followed anew when a directory that holds one has changed."""
    del stamps
    own, _ = _own(variables, uid)
    others = {_real(user.pw_dir) for user in _users(uid) if user.pw_dir.startswith("/")}
    homes = [home for home in others if home != "/" and not any(f"{home}/".startswith(f"{tree}/") for tree in _NO_HOMES)]
    # A link inside a mounted tree shows nothing by itself; what it leads to may be in a mounted tree as well.
    led_to = {_real(place) for place in own}
    return sorted({*own, *led_to, *_of_machine(), *(place for home in homes for place in of_home(home))} - {"/"})


@lru_cache(maxsize=1)
def _of_machine() -> frozenset[str]:
    """Also where the machine's places are links, as of a /var/lib/docker that is on a larger disk; looked at once: it costs 1 ms."""
    return frozenset({*MACHINE, *map(_real, MACHINE)})


def _real(path: str) -> str:
    """Without links; where one changes meanwhile, which is an error to the library, as it was given."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


def _temporary() -> set[str]:
    # Not gettempdir(), which tries them by writing and fails where none can be written.
    named = [tempfile.tempdir or "", *(value for _, value in environment(("TMPDIR", "TEMP", "TMP")))]
    return {"/tmp", "/var/tmp", *(_real(place) for place in named if place.startswith("/"))}  # noqa: S108 - looked at


def _listed(directory: str) -> list[str]:
    try:
        return [f"{directory}/{name}" for name in os.listdir(directory) if name.startswith(TEMPORARY)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SandboxError(f"{plain(directory)} is mounted, and what to hide in it cannot be looked up: {error}") from error
