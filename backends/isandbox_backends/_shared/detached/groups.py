"""The control group of a detached sandbox, which all its clients put their commands into."""

from __future__ import annotations

import contextlib
import re
import weakref
from typing import TYPE_CHECKING

from isandbox._state.owner import current_process, parse_process, process_fate
from isandbox_backends._shared.cgroups import Limits, Place, SandboxGroup
from isandbox_backends._shared.cgroups.fs import KernelFs
from isandbox_backends._shared.detached.note import NoteError

if TYPE_CHECKING:
    from isandbox._state.entry import Resources
    from isandbox_backends._shared.detached.note import GroupNote

_COMMAND = re.compile(r"(c([0-9]+-[0-9]+-[0-9]+)-[0-9]+-)[0-9]+", re.ASCII)
_in_use: weakref.WeakSet[SandboxGroup] = weakref.WeakSet()


def of_this_client(group: SandboxGroup, client: int) -> SandboxGroup:
    """Commands' groups are named after this process and its connection: others make theirs in the same place."""
    group.commands = f"c{current_process()}-{client}-"
    _in_use.add(group)
    return group


def leave(group: SandboxGroup) -> None:
    """The connection has ended. What its commands still run in goes when this process, or after its end another one, joins again."""
    _in_use.discard(group)
    group.remove_own()


def join(given: GroupNote, resources: Resources, client: int) -> SandboxGroup:
    """The group, from the note; what clients that have gone left in it goes. Raises `NoteError` for another one than the
    register's: a helper that somebody has taken over does not choose where commands run.
    """
    fs = KernelFs()
    place = Place("v1" if given.version == "v1" else "v2", dict(given.parents))
    group = SandboxGroup(place, given.name, Limits(given.memory, given.pids, given.cpus), fs)
    if set(group.directories) != set(resources.cgroups):
        raise NoteError("the sandbox's helper names another control group than the register")
    used = {other.commands for other in list(_in_use) if other.directories == group.directories}
    for directory in group.directories:
        with contextlib.suppress(OSError):
            for name in fs.list(directory):
                if _is_left(name, used):
                    with contextlib.suppress(OSError):  # a kept command runs in it
                        fs.remove(f"{directory}/{name}")
    return of_this_client(group, client)


def _is_left(name: str, used: set[str]) -> bool:
    """Whether a command's group is of a process that is dead, or of a connection of this one that has ended."""
    match = _COMMAND.fullmatch(name)
    client = None if match is None else parse_process(match[2])
    if match is None or client is None:
        return False
    return match[1] not in used if client == current_process() else process_fate(client) == "dead"
