"""Ending what still runs in the groups of a sandbox that has ended: without a pid namespace nobody else knows of it."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from isandbox_backends._shared.portable import open_process

if TYPE_CHECKING:
    from isandbox_backends._shared.cgroups.fs import CgroupFs

# A process that forks meanwhile has children that the next look finds; one that forks faster than we look stays, and so does
# its group.
_LOOKS = 20


def end_members(fs: CgroupFs, group: str) -> None:
    """SIGKILL to every process in ``group`` and in the groups in it, until none is left. Never raises `OSError`.

    A number alone is not believed: the process is held by a descriptor, and asked for once more in the group.
    """
    for _ in range(_LOOKS):
        found = [(directory, pid) for directory in _directories(fs, group) for pid in _members(fs, directory)]
        if not found:
            return
        for directory, pid in found:
            _end(fs, directory, pid)


def _directories(fs: CgroupFs, group: str) -> list[str]:
    with contextlib.suppress(OSError):
        return [group, *(f"{group}/{name}" for name in fs.list(group))]
    return []


def _members(fs: CgroupFs, directory: str) -> list[int]:
    """0 is a process of another pid namespace."""
    with contextlib.suppress(OSError, ValueError):
        return [pid for pid in map(int, fs.read(f"{directory}/cgroup.procs").split()) if pid > 0]
    return []


def _end(fs: CgroupFs, directory: str, pid: int) -> None:
    with contextlib.suppress(OSError):
        fd = open_process(pid)
        try:
            if fd >= 0 and pid in _members(fs, directory):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        finally:
            if fd >= 0:
                os.close(fd)
