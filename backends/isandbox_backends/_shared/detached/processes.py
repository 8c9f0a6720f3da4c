"""Helpers among the machine's processes, by what they were executed with: ``isandbox-helper ID OWNER``.

Any process of any user can call itself so. An owned sandbox's is believed where its parent is the owner that it names, which
nobody else's can be; a dead owner's where its ids, which the kernel tells, can be those of a helper of this user's.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isandbox._state.ids import is_id
from isandbox._state.owner import ProcessName, name_process, parse_process, process_fate
from isandbox_backends._shared.bounds import ROOT_IDS
from isandbox_backends._shared.portable import open_process

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONG = 4096
DETACHED = "detached"


@dataclass(frozen=True, slots=True)
class NamedHelper:
    """``owner``: ``None`` for a detached sandbox's. ``start``: of the process, in clock ticks since boot. ``keeper``: of one
    command, by the name that it gives itself.
    """

    pid: int
    parent: int
    start: int
    id: str
    owner: ProcessName | None
    keeper: bool = False

    @property
    def backend(self) -> str:
        return self.id.rpartition("-")[0]


def parse_arguments(raw: bytes) -> tuple[str, ProcessName | None] | None:
    """The id and the owner in a command line; ``None`` for one that is no helper's. Pure."""
    words = raw.decode("utf-8", "replace").rstrip("\0").split("\0")
    if len(words) < 3 or not is_id(words[-2]):
        return None
    owner = parse_process(words[-1])
    return (words[-2], owner) if owner is not None or words[-1] == DETACHED else None


def helper_of(pid: int) -> NamedHelper | None:
    """``None`` when the process is no helper, has ended, or cannot be looked at."""
    try:
        named = parse_arguments(_read(f"/proc/{pid}/cmdline"))
        if named is None:
            return None
        before, _, after = _read(f"/proc/{pid}/stat").rpartition(b")")
        fields = after.split()
        if fields[0] in {b"Z", b"X"}:
            return None
        return NamedHelper(pid, int(fields[1]), int(fields[19]), *named, keeper=before.endswith(b"(isandbox-keeper"))
    except (OSError, ValueError, IndexError):
        return None


def helpers() -> Iterator[NamedHelper]:
    """Every process that is one, keepers among them: they share the first process's memory, and so its arguments."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal() and (found := helper_of(int(name))) is not None:
                yield found


def first_processes() -> list[NamedHelper]:
    """Of each sandbox the first process: that one, of those with its id, whose parent is none of them."""
    found = list(helpers())
    known = {(helper.pid, helper.id) for helper in found}
    return [helper for helper in found if (helper.parent, helper.id) not in known]


def open_helper(helper: NamedHelper) -> int | None:
    """A descriptor of the process, which cannot come to mean another one; ``None`` when it is not that one any more."""
    with contextlib.suppress(OSError):
        fd = open_process(helper.pid)
        if fd >= 0 and helper_of(helper.pid) == helper:
            return fd
        if fd >= 0:
            os.close(fd)
    return None


def open_named(process: ProcessName) -> int | None:
    """The same for a process that is known by its name."""
    with contextlib.suppress(OSError):
        fd = open_process(process.pid)
        if fd >= 0 and process_fate(process) == "alive":
            return fd
        if fd >= 0:
            os.close(fd)
    return None


def is_ours(process: ProcessName) -> bool:
    """Whether it lives, and its effective uid is ours."""
    uids = _uids(process.pid)
    return len(uids) == 4 and uids[1] == os.geteuid() and process_fate(process) == "alive"


def is_owned(helper: NamedHelper) -> bool:
    """Whether it is an owned sandbox of this user's: the process that it names as its owner lives, is ours, and its parent."""
    return helper.owner is not None and helper.parent == helper.owner.pid and is_ours(helper.owner)


def has_our_ids(helper: NamedHelper) -> bool:
    """Whether a process that calls itself a helper can be one of this user's. To root alone it makes a difference: of other users
    the kernel lets nobody end what is not theirs. Root's helpers have its id or one that no user has, and one id only; a
    set-user-id program, which its caller gives any arguments, has the caller's beside.
    """
    if os.geteuid() != 0:
        return True
    uids = set(_uids(helper.pid))
    return len(uids) == 1 and all(uid == 0 or uid in ROOT_IDS for uid in uids)


def _uids(pid: int) -> list[int]:
    """Real, effective, saved and of the file system; none where it cannot be told."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = _read(f"/proc/{pid}/status").split(b"\n")
        return [int(uid) for uid in next(line for line in lines if line.startswith(b"Uid:")).split()[1:]]
    return []


def name_of(pid: int) -> ProcessName | None:
    with contextlib.suppress(OSError):
        return name_process(pid)
    return None


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _LONG)
    finally:
        os.close(fd)
