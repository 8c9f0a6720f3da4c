"""What an ordinary user may map beside its own id: the entries of /etc/subuid and /etc/subgid, and the programs that map them.

What has been found is remembered until one of these files changes: an administrator may at any time.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from isandbox_backends._shared.portable import check_files_open, is_passing

FILES = ("/etc/subuid", "/etc/subgid")
PROGRAMS = ("/usr/bin/newuidmap", "/usr/bin/newgidmap")
_MOST_IDS = 1 << 16

States = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """``uids``, ``gids``: what this user may map, as many of both. ``home``: the user's, of the password file."""

    uid: int
    gid: int
    home: str
    uids: range
    gids: range


@dataclass(frozen=True, slots=True)
class Refused:
    why: str


def entries(text: str) -> Iterator[tuple[str, range]]:
    """(login name or uid, ids) for each line that is one (subuid(5)). Pure."""
    for line in text.splitlines():
        owner, _, rest = line.strip().partition(":")
        first, _, count = rest.partition(":")
        if owner and not owner.startswith("#") and first.isdecimal() and count.isdecimal() and int(count):
            yield owner, range(int(first), int(first) + int(count))


def largest(text: str, owners: tuple[str, ...]) -> range:
    """The longest range of these owners, none longer than 65,536; empty without one. Pure."""
    found = max((ids for owner, ids in entries(text) if owner in owners), key=len, default=range(0))
    return found[:_MOST_IDS]


def given_to_others(first: int, last: int) -> tuple[range, ...]:
    """What the two files give to anybody of the ids from ``first`` to ``last``. Raises `OSError` where one cannot be read now."""
    return _given(first, last, _states(FILES))


@lru_cache(maxsize=4)
def _given(first: int, last: int, _: States) -> tuple[range, ...]:
    return tuple(ids for path in FILES for _, ids in entries(_read(path)) if ids.start <= last and first < ids.stop)


def find_grant() -> Grant | Refused:
    """What this process may map, or why it may map nothing but its own id."""
    if (os.getuid(), os.getgid()) != (os.geteuid(), os.getegid()):
        return Refused("this process runs as another user than who started it")
    try:
        return _grant(os.geteuid(), os.getegid(), _states((*FILES, *PROGRAMS, "/etc/passwd")))
    except OSError as error:  # not remembered: it may be otherwise at the next look
        return Refused(f"this process cannot look up its ids: {error.strerror}")


@lru_cache(maxsize=4)
def _grant(uid: int, gid: int, _: States) -> Grant | Refused:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        check_files_open()
        return Refused(f"uid {uid} has no name, so that nothing can be given to it")
    if user.pw_gid != gid:
        return Refused(f"the group of this process is not the user's own: newgidmap maps {user.pw_gid}, not {gid}")
    uids, gids = (largest(_read(path), (user.pw_name, str(uid))) for path in FILES)
    count = min(len(uids), len(gids))
    if count < 2:
        return Refused(f"/etc/subuid and /etc/subgid give {user.pw_name} nothing: usermod --add-subuids 100000-165535 "
                       f"--add-subgids 100000-165535 {user.pw_name}")  # fmt: skip
    for program in PROGRAMS:
        if (why := _unusable(program)) is not None:
            return Refused(why)
    if "\nNoNewPrivs:\t1\n" in _read("/proc/self/status"):
        return Refused("this process cannot gain privileges (no_new_privs), as newuidmap would have to")
    return Grant(uid, gid, user.pw_dir, uids[:count], gids[:count])


def _states(paths: tuple[str, ...]) -> States:
    return tuple(map(_state, paths))


def _state(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(path: str) -> str:
    """Empty where there is no such file, or none for us; not for want of descriptors or memory, which must not be remembered."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        if is_passing(error):
            raise
        return ""


def _unusable(program: str) -> str | None:
    try:
        found = os.stat(program)
    except OSError:
        return f"{program} is not installed: apt-get install uidmap"
    if not stat.S_ISREG(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        return f"{program} is not a program of root's alone"
    if not found.st_mode & stat.S_ISUID and not _capable(program):
        return f"{program} has no privilege (set-user-id, or file capabilities)"
    return None


def _capable(program: str) -> bool:
    try:
        return bool(os.getxattr(program, "security.capability"))
    except OSError:
        return False
