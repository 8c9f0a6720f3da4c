"""The native sandboxes of this user: which there are, ending one, and removing what dead owners left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from isandbox._state.clock import MACHINE, Moment
from isandbox._state.ids import is_id
from isandbox.errors import SandboxError, SandboxNotFoundError
from isandbox.records import SandboxSummary
from isandbox_backends._shared.detached.connect import open_connection
from isandbox_backends._shared.detached.connection import OtherVersionError, TurnedAwayError
from isandbox_backends._shared.detached.processes import first_processes, is_owned, open_helper, open_named
from isandbox_backends._shared.detached.removal import finish, is_cleared
from isandbox_backends._shared.detached.state import State
from isandbox_backends._shared.host_process import log
from isandbox_backends._shared.link import HelperStartError
from isandbox_backends._shared.portable import wait_for_end

if TYPE_CHECKING:
    from isandbox._state.entry import Entry
    from isandbox.records import SandboxState
    from isandbox_backends._shared.detached.processes import NamedHelper

# Of a busy machine: what a helper does takes milliseconds.
_PATIENCE = 10.0
_FORCE = 5.0


def list_sandboxes(backend: str) -> list[SandboxSummary]:
    """Detached ones from the register, owned ones as their processes say. Raises `StateError`."""
    # One each: for a moment a sandbox's launcher is there beside its first process, with the same name and parent.
    owned = {helper.id: _owned(helper) for helper in first_processes() if helper.backend == backend and is_owned(helper)}
    found = list(owned.values())
    state = State.open()
    if state is not None:
        with state:
            listing = state.register.list()
            for name, error in listing.damaged.items():
                log.warning("sandbox %s is not listed: %s", name, error)
            now, places = MACHINE.now(), state.places.ids()
            ours = (entry for entry in listing.entries if entry.backend == backend and _was(entry))
            found += [_detached(state, entry, now, places) for entry in ours]
    return found


def _was(entry: Entry) -> bool:
    return entry.state != "starting"


def _detached(state: State, entry: Entry, now: Moment, places: tuple[str, ...]) -> SandboxSummary:
    words: dict[str, SandboxState] = {"alive": "running", "dead": "ended", "elsewhere": "elsewhere"}
    word = words[state.fate(entry)]
    ends = entry.expires_at(now) if word == "running" else None
    return SandboxSummary(
        id=entry.id,
        backend=entry.backend,
        state=word,
        detached=True,
        created_at=datetime.fromtimestamp(entry.created.wall, UTC),
        labels=entry.labels,
        expires_at=None if ends is None else datetime.fromtimestamp(ends, UTC),
        leftovers=word == "ended" and not is_cleared(entry, places),
    )


def _owned(helper: NamedHelper) -> SandboxSummary:
    now = MACHINE.now()
    began = now.wall - max(0.0, now.up - helper.start / os.sysconf("SC_CLK_TCK"))
    return SandboxSummary(
        id=helper.id,
        backend=helper.backend,
        state="running",
        detached=False,
        created_at=datetime.fromtimestamp(began, UTC),
        owner_pid=None if helper.owner is None else helper.owner.pid,
    )


def kill_sandbox(backend: str, id: str) -> bool:
    """As `Backend.kill`."""
    state = State.open()
    if state is not None:
        with state:
            entry = state.register.get(id) if is_id(id) else None
            if entry is not None and entry.backend == backend:
                return _kill_detached(state, entry)
    owned = [helper for helper in first_processes() if helper.id == id and is_owned(helper)]
    if not owned or owned[0].backend != backend:
        raise SandboxNotFoundError(f"you have no sandbox {id} on this machine")
    killed = [_kill_owned(helper) for helper in owned]
    return any(killed)


def _kill_owned(helper: NamedHelper) -> bool:
    """Its owner finds it lost, and removes what it made."""
    fd = open_helper(helper)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        wait_for_end(fd, _FORCE)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise SandboxError(f"sandbox {helper.id} cannot be ended from here: {error}") from error
    finally:
        os.close(fd)
    return True


def _kill_detached(state: State, entry: Entry) -> bool:
    fate = state.fate(entry)
    if fate == "elsewhere":
        raise SandboxNotFoundError(
            f"sandbox {entry.id} is another machine's or pid namespace's, which shares {state.directory.path}: end it from there"
        )
    lived = fate == "alive" and state.places.is_alive(entry.id)
    if lived:
        _end(state, entry)
    elif fate == "alive" and entry.state == "starting":
        raise SandboxError(f"sandbox {entry.id} is still being made; try again")
    finish(state, entry.id, entry.resources)
    return lived


def _end(state: State, entry: Entry) -> None:
    """By its own helper, which knows all that runs in it; by force when that does not do it. Raises `SandboxError`."""
    pidfd = None if entry.helper is None else open_named(entry.helper.process)
    try:
        if _shut_down(state, entry) and _is_over(state, entry.id, pidfd, _PATIENCE):
            return
        if pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        if not _is_over(state, entry.id, pidfd, _FORCE):
            raise SandboxError(
                f"sandbox {entry.id} does not end; its first process is stuck in the kernel, or cannot be seen from here"
            )
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _shut_down(state: State, entry: Entry) -> bool:
    """Ask its helper; false when it is of another version, or takes no more clients."""
    try:
        link = open_connection(state, entry)
    except SandboxError:
        return False
    try:
        link.wait_ready(time.monotonic() + _PATIENCE)
    except (HelperStartError, OtherVersionError, TurnedAwayError):
        link.let_go()
        return False
    except BaseException:
        link.let_go()
        raise
    link.hang_up()
    link.reap()
    return True


def _is_over(state: State, id: str, pidfd: int | None, timeout: float) -> bool:
    if pidfd is not None:
        wait_for_end(pidfd, timeout)
    return state.wait_until_free(id, timeout)
