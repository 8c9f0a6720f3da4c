"""Removing what belongs to owners that are dead, and to detached sandboxes that have ended; nothing else."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from isandbox._state.owner import process_fate
from isandbox.errors import StateError
from isandbox.records import ReapReport
from isandbox_backends._shared.cgroups import Place, find_place
from isandbox_backends._shared.cgroups.fs import KernelFs
from isandbox_backends._shared.cgroups.members import end_members
from isandbox_backends._shared.cgroups.owner import dead_groups, remove_dead
from isandbox_backends._shared.cgroups.place import CONTROLLERS
from isandbox_backends._shared.detached.processes import first_processes, has_our_ids, open_helper
from isandbox_backends._shared.detached.removal import finish, is_cleared
from isandbox_backends._shared.detached.state import State
from isandbox_backends._shared.host_process import log
from isandbox_backends._shared.portable import wait_for_end
from isandbox_backends._shared.scratch import remove_dead_scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

_END = 2.0


def reap(backend: str) -> ReapReport:
    """As `Backend.reap`. Several may do it at once: each thing is removed by one, and is no error to the other."""
    removed = [*_of_register(backend), *_helpers(backend), *_groups(), *remove_dead_scratch()]
    return ReapReport(tuple(sorted(set(removed))))


def _of_register(backend: str) -> Iterator[str]:
    state = State.open()
    if state is None:
        return
    with state:
        listing = state.register.list()
        for entry in listing.entries:
            if entry.backend != backend or state.fate(entry) != "dead":
                continue
            if not is_cleared(entry, state.places.ids()) and finish(state, entry.id, entry.resources):
                yield entry.id
        entered = {entry.id for entry in listing.entries} | set(listing.damaged)
        for name in state.places.ids():
            # What nobody has entered, nobody can come to use: the entry is made before the directory has its name.
            if name not in entered and state.register.get(name) is None and not state.places.is_alive(name):
                with contextlib.suppress(StateError):
                    if state.places.remove(name):
                        yield name
        yield from state.places.remove_leftovers()
        state.register.forget()


def _helpers(backend: str) -> Iterator[str]:
    """The first processes of owned sandboxes whose owner is dead. They end by themselves; one that is stuck or stopped did not.

    Where a first process was killed that is no pid namespace's, its keepers are at it: each ends what its command has left, and
    then itself. Nobody else would find that, so they are not ended but, when they were stopped, let go on.
    """
    for helper in first_processes():
        if helper.backend != backend or helper.owner is None or process_fate(helper.owner) != "dead":
            continue
        fd = open_helper(helper)
        if fd is None:
            continue
        try:
            if not has_our_ids(helper):  # asked while the descriptor holds the process: it is not another one by now
                continue
            signal.pidfd_send_signal(fd, signal.SIGCONT if helper.keeper else signal.SIGKILL)
            if wait_for_end(fd, _END):
                yield helper.id
        except ProcessLookupError:
            pass
        except PermissionError:  # another user's
            log.debug("the helper %s of a dead owner is another user's", helper.pid)
        finally:
            os.close(fd)


def _groups() -> Iterator[str]:
    fs = KernelFs()
    places = [find_place(frozenset({name})) for name in CONTROLLERS]
    for parent in sorted({path for place in places if isinstance(place, Place) for path in place.directories}):
        for group in dead_groups(fs, parent):
            end_members(fs, group)
        yield from remove_dead(fs, parent)
