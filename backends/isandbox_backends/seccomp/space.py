"""The user namespace that an ordinary user's sandboxes are made in: it has all the ids that the user may map.

Only the set-user-id programs newuidmap and newgidmap may map subordinate ids, and they take some milliseconds. So they run once
in the life of a process: for a namespace that is held by a descriptor and has no process in it. The launcher of each sandbox
enters it, which the user may, for the user made it; there it has the right to map any of these ids into the sandbox's own.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from errno import EACCES, EINVAL, ENOSYS, EPERM
from signal import SIGCHLD, SIGKILL, SIGPIPE
from typing import TYPE_CHECKING

from isandbox_backends._shared.client import HelperClient, HelperStartError
from isandbox_backends._shared.helper import HelperProgram, helper_path
from isandbox_backends._shared.plan import Mode, ModeRecord
from isandbox_backends._shared.spawn import ended_within
from isandbox_backends.seccomp.subordinate import PROGRAMS, Grant, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

Line = tuple[int, int, int]
"""Of an id map: inside, outside, count."""
_END_TIMEOUT = 1.0
# A directory service may keep the programs for seconds; half of the usual `start_timeout` is more than this.
_PATIENCE = 5.0
_LASTING = (EPERM, EACCES, EINVAL, ENOSYS)


@dataclass(frozen=True, slots=True)
class Space:
    """``fd``: the namespace, ours to keep. ``file``: what the kernel calls it."""

    fd: int
    file: tuple[int, int]

    def usable(self) -> bool:
        """Not if somebody has closed the descriptor, as a process does that becomes a daemon."""
        try:
            found = os.fstat(self.fd)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self.file


_spaces: dict[Grant, Space | Refused] = {}
_making = threading.Lock()


def _in_forked_child() -> None:
    global _making  # noqa: PLW0603 - another thread of the parent may have held it
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def known(grant: Grant) -> Space | Refused | None:
    """What `space` would say at once, or ``None``."""
    found = _spaces.get(grant)
    return None if isinstance(found, Space) and not found.usable() else found


def space(grant: Grant, timeout: float) -> Space | Refused:
    """The namespace with all of the grant, made when it is asked for first.

    Remembered is also that the programs do not map, or hang for `_PATIENCE`; not what one start alone had no time or no
    descriptors for, nor that somebody else's try took too long.

    Blocking, for at most ``timeout`` seconds and one more. Where the programs fail or hang they are ended, and nothing is left.
    """
    deadline = time.monotonic() + timeout
    if not _making.acquire(timeout=timeout):
        return Refused(f"another start still waits for {PROGRAMS[0]}")
    try:
        found = known(grant)
        if found is None:
            found, lasting = _tried(grant, deadline)
            if lasting:
                _spaces[grant] = found
        return found
    finally:
        _making.release()


def _tried(grant: Grant, deadline: float) -> tuple[Space | Refused, bool]:
    """What comes of making it, and whether the next try would have no other end."""
    patient = deadline - time.monotonic() >= _PATIENCE
    try:
        return _make(grant, deadline), True
    except TimeoutError as error:
        return Refused(str(error)), patient
    except (OSError, HelperStartError) as error:
        return Refused(f"no namespace for subordinate ids: {error}"), error.errno in _LASTING


def lines_of(grant: Grant) -> tuple[list[Line], list[Line]]:
    """The namespace's maps of uids and gids: the granted ones from 0 on, then the user's own. Pure."""
    count = len(grant.uids)
    return (
        [(0, grant.uids.start, count), (count, grant.uid, 1)],
        [(0, grant.gids.start, count), (count, grant.gid, 1)],
    )


def _make(grant: Grant, deadline: float) -> Space | Refused:
    path = helper_path()
    if path is None:
        return Refused("the native helper is not installed")
    client = HelperClient(HelperProgram(path), [ModeRecord(Mode.HOLD_IDS)])
    try:
        # Our child, which waits for us: its number is nobody else's as long as it is not reaped.
        pid = client.wait_launched(deadline)
        why = _map(pid, grant, deadline)
        if why is not None:
            return Refused(why)
        fd = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        found = os.fstat(fd)
        return Space(fd, (found.st_dev, found.st_ino))
    finally:
        client.give_up()


def _map(pid: int, grant: Grant, deadline: float) -> str | None:
    """Both programs at once; why it did not work. The kernel has the last word: whether the maps are there. Raises `TimeoutError`."""
    maps = list(zip(PROGRAMS, ("uid_map", "gid_map"), lines_of(grant), strict=True))
    running: dict[int, int] = {}
    said: list[str] = []
    try:
        for program, _, lines in maps:
            running.update([_spawn(program, pid, lines)])
        for child in list(running):
            said.append(_outcome(child, running[child], deadline))
            os.close(running.pop(child))
    finally:
        for child, words in running.items():
            _kill(child)
            os.close(words)
    for (program, name, lines), answer in zip(maps, said, strict=True):
        with open(f"/proc/{pid}/{name}", encoding="ascii") as file:
            if [tuple(map(int, line.split())) for line in file] != lines:
                if not answer:
                    raise TimeoutError(f"{program} did not map: no answer in time")
                return f"{program} did not map: {answer}"
    return None


def _spawn(program: str, pid: int, lines: Sequence[Line]) -> tuple[int, int]:
    """By its absolute path, with numbers for arguments and no environment. Its pid, and where its words can be read."""
    argv = [os.path.basename(program), str(pid), *(str(number) for line in lines for number in line)]
    words, end = os.pipe()
    try:
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, end, 2),
        ]
        os.set_blocking(words, False)
        child = os.posix_spawn(program, argv, {}, file_actions=actions, setsigmask=(), setsigdef=(SIGCHLD, SIGPIPE))
    except BaseException:
        os.close(words)
        raise
    finally:
        os.close(end)
    return child, words


def _outcome(child: int, words: int, deadline: float) -> str:
    """Wait for its end, which is by force at the deadline; what it had to say."""
    if not ended_within(child, deadline - time.monotonic()):
        _kill(child)
        return ""
    with contextlib.suppress(BlockingIOError):
        return os.read(words, 500).decode(errors="replace").strip() or "it said nothing"
    return "it said nothing"


def _kill(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # its real uid is ours, so that we may
        os.kill(child, SIGKILL)
    ended_within(child, _END_TIMEOUT)
