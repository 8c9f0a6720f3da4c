"""Removing what a detached sandbox that has ended left on the host."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from isandbox._state.entry import Resources
from isandbox.errors import StateError
from isandbox_backends._shared.cgroups import NO_LIMITS, Place, SandboxGroup
from isandbox_backends._shared.cgroups.fs import KernelFs
from isandbox_backends._shared.cgroups.members import end_members
from isandbox_backends._shared.host_process import log
from isandbox_backends._shared.scratch import remove_tree

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from isandbox._state.entry import Entry
    from isandbox_backends._shared.detached.state import State


def name_of_all(id: str) -> str:
    """What the control groups and the directories of a detached sandbox are called: never what a dead owner's are."""
    return f"isandbox-{id}"


def resources_of(id: str, parents: Mapping[str, str], scratch: Iterable[str]) -> Resources:
    groups = dict.fromkeys(f"{parent}/{name_of_all(id)}" for parent in parents.values())
    return Resources(tuple(groups), tuple(scratch))


def is_cleared(entry: Entry, places: Container[str]) -> bool:
    """Whether of a dead sandbox nothing is left but its row: its end is entered, and ``places`` has no directory of it."""
    return entry.state == "ended" and entry.id not in places


def finish(state: State, id: str, resources: Resources) -> bool:
    """The sandbox has ended: remove its directories and groups, and have the register say so. Several may do it at once.

    What cannot be removed is a line in the log, and the register keeps it for the next `reap`; false then.
    """
    clean = all([*_remove_groups(id, resources.cgroups), *_remove_scratch(id, resources.scratch)])
    try:
        state.places.remove(id)
        if clean:
            state.register.ended(id)
    except StateError as error:
        log.warning("sandbox %s: its state could not be removed: %s", id, error)
        return False
    return clean


def _remove_groups(id: str, directories: Iterable[str]) -> Iterable[bool]:
    """Only those that have the sandbox's name, whatever the register says."""
    parents = {str(number): os.path.dirname(path) for number, path in enumerate(directories) if _is_its_own(id, path)}
    if not parents:
        return
    try:
        group = SandboxGroup(Place("v2", parents), name_of_all(id), NO_LIMITS, KernelFs())
        for directory in group.directories:
            end_members(KernelFs(), directory)
        group.remove()
        yield True
    except OSError as error:
        log.warning("sandbox %s: its control group could not be removed: %s", id, error)
        yield False


def _remove_scratch(id: str, directories: Iterable[str]) -> Iterable[bool]:
    for path in directories:
        if not _is_its_own(id, path):
            continue
        try:
            found = os.lstat(path)
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                remove_tree(path)
            yield True
        except FileNotFoundError:
            yield True
        except OSError as error:
            log.warning("sandbox %s: a directory could not be removed: %s", id, error)
            yield False


def _is_its_own(id: str, path: str) -> bool:
    return os.path.isabs(path) and os.path.basename(path) == name_of_all(id) and ".." not in path.split("/")
