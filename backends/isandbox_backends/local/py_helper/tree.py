"""The processes below this one, by psutil: looking at them and ending them."""

from __future__ import annotations

import contextlib

import psutil


class Tree:
    """Descendants of the process that makes it.

    ``complete``: the system brings orphans back to this process (a child subreaper), so one look finds all. Otherwise
    those that were seen before are remembered; one that lost its parent between two looks is not found.
    """

    def __init__(self, *, complete: bool) -> None:
        self.complete = complete
        self._root = psutil.Process()
        self._known: dict[int, psutil.Process] = {}

    def look(self) -> list[psutil.Process]:
        """Those that live, parents before their children."""
        return [process for process in self._find() if _lives(process)]

    def kill(self) -> bool:
        """One pass over all; true when there was nobody left."""
        found = self._find()
        for process in found:
            kill(process)
        return not any(map(_lives, found))

    def _find(self) -> list[psutil.Process]:
        found = {process.pid: process for process in _below(self._root)}
        if not self.complete:
            for process in list(self._known.values()):
                if process.is_running():
                    found.setdefault(process.pid, process)
                    for child in _below(process):
                        found.setdefault(child.pid, child)
            self._known = found
        return list(found.values())


def kill(process: psutil.Process) -> None:
    # psutil compares the start time first: a number that belongs to another process by now is left alone.
    with contextlib.suppress(psutil.Error):
        process.kill()


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def parent_of(process: psutil.Process) -> int:
    """0 for one that has ended."""
    try:
        return process.ppid()
    except psutil.Error:
        return 0
