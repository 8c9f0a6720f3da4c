"""Who has which ids: one locked byte of one file for each sandbox that lives.

The lock belongs to an open file description (fcntl(2), "Open file description locks"), and the sandbox's first process keeps
that open. So the kernel frees the ids when that process ends, however it ends, and not before: whether the host has been killed,
has forked, or has let go of the sandbox. Nothing is written, nothing can become stale, and the file stays empty.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from errno import EACCES, EAGAIN, ENOENT, EPERM

from isandbox_backends._shared.host_process import forget, remember

_FILE = "ids"
_ATTEMPTS = 64
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True, weakref_slot=True, eq=False)
class Claim:
    """``first``: the first of the ids. ``fd``: the lock, for the helper to keep; -1 for ids that are not locked, and ``why``."""

    first: int
    fd: int = -1
    why: str = ""

    def __post_init__(self) -> None:
        if self.fd >= 0:
            remember(self)

    def close(self) -> None:
        """Close our copy. What the helper has stays locked."""
        forget(self)
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def abandon(self) -> None:
        """In a forked child, which would keep the ids of a sandbox that has gone."""
        self.close()

    def __del__(self) -> None:
        self.close()


def claim(directory: str, ranges: range, taken: Sequence[range] = ()) -> Claim:
    """Lock one range of ids, until the last copy of the lock's descriptor is closed.

    ``ranges``: the first id of each, as far apart as each is long. ``taken``: ids that others have. ``directory`` is made where
    it is missing, with the two above it; it must be ours alone. Where it cannot be used, or 64 ranges in a row are in use, a range is chosen by chance
    and ``why`` says so. Raises `LookupError` when others have them all.
    """
    start = random.randrange(len(ranges))  # noqa: S311 - not a secret
    candidates = _candidates(ranges, taken, start)
    by_chance = next(candidates, None)
    if by_chance is None:
        raise LookupError(f"ids {ranges[0]} to {ranges[-1] + ranges.step - 1} are given to others")
    fd = -1
    try:
        fd = _open(directory)
        for first in _candidates(ranges, taken, start):
            if _lock(fd, first):
                found = Claim(first, fd)
                fd = -1
                return found
        why = "many are in use"
    except OSError as error:
        why = f"{directory} cannot be used: {error.strerror}"
    finally:
        if fd >= 0:
            os.close(fd)
    return Claim(by_chance, why=why)


def _candidates(ranges: range, taken: Sequence[range], start: int) -> Iterator[int]:
    """From ``start`` on, which is chosen by chance: processes that do not see the same file hardly ever meet all the same."""
    for step in range(min(len(ranges), _ATTEMPTS)):
        first = ranges[(start + step) % len(ranges)]
        if not any(other.start < first + ranges.step and first < other.stop for other in taken):
            yield first


def _open(directory: str) -> int:
    if not os.path.isabs(directory):  # of a user whose home directory has no name
        raise OSError(ENOENT, "it is nowhere")
    try:
        place = os.open(directory, _DIRECTORY)
    except FileNotFoundError:
        _make(directory)
        place = os.open(directory, _DIRECTORY)
    try:
        found = os.fstat(place)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
            raise OSError(EPERM, "others can write there")
        fd = os.open(_FILE, _OPEN, 0o600, dir_fd=place)
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # code inside may have made a pipe of that name, where it could write
            os.close(fd)
            raise OSError(EPERM, "it has no lock file")
        return fd
    finally:
        os.close(place)


def _make(directory: str) -> None:
    """It and the two above it, closed to others whatever the umask, but no more: no home directory that is not there, and no
    /run.
    """
    above = os.path.dirname(directory)
    for place in (os.path.dirname(above), above, directory):
        if os.path.dirname(place) == "/":
            continue
        with contextlib.suppress(FileExistsError):
            os.mkdir(place, 0o700)


def _lock(fd: int, byte: int) -> bool:
    # struct flock on both architectures: type, whence, start, length, pid
    record = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, record)
    except OSError as error:
        if error.errno in (EACCES, EAGAIN):
            return False
        raise
    return True
