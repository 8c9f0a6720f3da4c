"""Making a detached sandbox: registered before it is, so that a host that is killed half-way leaves nothing unknown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from isandbox._aio import in_thread
from isandbox._state.owner import OwnerRecord, boot_id, host_id
from isandbox._state.register import Key, make_key
from isandbox.errors import SandboxBusyError, SandboxError, SandboxNotFoundError, StateError
from isandbox_backends._shared.client import HelperStartError
from isandbox_backends._shared.detached import note
from isandbox_backends._shared.detached.connect import connect
from isandbox_backends._shared.detached.core import DetachedCore, SharedCore
from isandbox_backends._shared.detached.groups import of_this_client
from isandbox_backends._shared.detached.processes import name_of
from isandbox_backends._shared.detached.removal import name_of_all, resources_of
from isandbox_backends._shared.detached.starting import DetachedStart
from isandbox_backends._shared.detached.state import State
from isandbox_backends._shared.native import AsyncNative, BlockingNative
from isandbox_backends._shared.plan import Mode, ModeRecord
from isandbox_backends._shared.spawn import LISTEN_FD, LOCK_FD, NOTE_FD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from isandbox._state.entry import Entry, Resources
    from isandbox._state.places import Place
    from isandbox_backends._shared.cgroups import SandboxGroup
    from isandbox_backends._shared.plan import Record
    from isandbox_backends._shared.start import Blueprint

_WAITING = 128  # clients that may wait for the doorkeeper
_LOOK = 0.02


class Attempt:
    """One try. ``run`` blocks, in a thread of its own where the caller has a loop; ``stop`` has it end soon, from another."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self._deadline = time.monotonic() + blueprint.request.start_timeout
        self._start: DetachedStart | None = None
        self._stopped = False
        self.is_new = False

    def stop(self) -> None:
        self._stopped = True
        if self._start is not None:
            self._start.stop()

    def run(self) -> DetachedCore:
        """The sandbox, new (``is_new``) or the one that has the request's key. Raises `SandboxError`, and leaves nothing."""
        try:
            with State.make() as state:
                while (core := self._registered(state)) is None:
                    pass
                return core
        except HelperStartError as error:
            raise self._blueprint.explain(error) from error

    def _registered(self, state: State) -> DetachedCore | None:
        """``None``: another call was making it, and has failed."""
        blueprint, request = self._blueprint, self._blueprint.request
        parents = blueprint.holding.place.parents if blueprint.holding.place is not None else {}
        resources = resources_of(blueprint.id, parents, blueprint.scratch)
        begun = False
        try:
            entry = state.register.begin(
                blueprint.id,
                lifetime=request.lifetime,
                idle_timeout=request.idle_timeout,
                labels=request.labels,
                resources=resources,
                key=_key(request.idempotency_key, request.options_digest),
            )
            begun = True
            if entry.id == blueprint.id:
                core = self._make(state, resources)
                self.is_new = True
                return core
        except BaseException as error:
            # An entry that failed is none, and who has the register may have it for as long again; after a Ctrl-C it may be one.
            if begun or not isinstance(error, SandboxError):
                state.take_back(blueprint.id)
            raise
        return self._found(state, entry)

    def _found(self, state: State, entry: Entry) -> DetachedCore | None:
        """Another call has made it, or is making it; ``None`` when that one has failed, so that the key is free."""
        undecided = _undecided(entry.id)
        while True:
            current = state.register.get(entry.id)
            if current is None or (current.key is None and current.state == "ended"):
                return None
            if current.state == "ended" or state.fate(current) == "dead":
                if current.state == "starting":  # who made it has died
                    return None
                raise SandboxNotFoundError(
                    f"idempotency_key: its sandbox {entry.id} has ended, and a key has one sandbox; use another key"
                )
            if current.state == "running":
                try:
                    return connect(entry.backend, entry.id, self._blueprint.request.on_event)
                except SandboxBusyError as error:  # it is made, and takes no more clients for now
                    undecided = error
            if self._stopped or time.monotonic() > self._deadline:
                raise undecided
            time.sleep(_LOOK)

    def _make(self, state: State, resources: Resources) -> DetachedCore:
        blueprint = self._blueprint
        group: SandboxGroup | None = None
        note_fd = -1
        with state.places.make() as place:
            try:
                for directory in reversed(blueprint.made):
                    os.mkdir(directory, 0o700)
                note_fd = note.blank()
                group = blueprint.holding.make(blueprint.backend, name_of_all(blueprint.id))
                self._start = start = self._launch(place, note_fd)
                if self._stopped:  # before `stop` could tell it
                    start.stop()
                start.wait_ready(self._deadline)
                if self._stopped:
                    raise HelperStartError(0, "the start", "was given up")
                core = blueprint.core(start, group, DetachedCore if blueprint.request.idempotency_key is None else SharedCore)
                core.resources, core.scratch = resources, ()
                self._register(state, start, core, place, note_fd)
            except BaseException as error:
                self._undo(group, place)
                if isinstance(error, OSError):
                    raise SandboxError(f"the {blueprint.backend} sandbox did not start: {error}") from error
                raise
            finally:
                if note_fd >= 0:
                    os.close(note_fd)
        return core

    def _launch(self, place: Place, note_fd: int) -> DetachedStart:
        blueprint = self._blueprint
        with _listening(place.control) as listener:
            given = {**blueprint.inherited, LISTEN_FD: listener.fileno(), LOCK_FD: place.lock, NOTE_FD: note_fd}
            return DetachedStart(blueprint.program(), detached_plan(blueprint.all_records()), given, blueprint.id)

    def _register(self, state: State, start: DetachedStart, core: DetachedCore, place: Place, note_fd: int) -> None:
        """After this the sandbox is there for everybody, and lives on without us."""
        blueprint = self._blueprint
        note.fill(note_fd, _note(core, blueprint))
        place.publish(blueprint.id)
        process = None if start.pid is None else name_of(start.pid)
        helper = None if process is None else OwnerRecord(host_id(), boot_id(), process)
        state.register.running(blueprint.id, helper=helper)
        place.close()
        if core.group is not None:
            of_this_client(core.group, 0)
        core.client = start.release()

    def _undo(self, group: SandboxGroup | None, place: Place) -> None:
        if self._start is not None:
            self._start.give_up()
        if group is not None:
            with contextlib.suppress(OSError):
                group.remove()
        with contextlib.suppress(StateError):
            place.discard()
        for directory in self._blueprint.made:
            with contextlib.suppress(OSError):
                os.rmdir(directory)


def create_blocking(blueprint: Blueprint) -> BlockingNative:
    attempt = Attempt(blueprint)
    core = attempt.run()
    _tell(attempt, core)
    handle = BlockingNative(core)
    core.handed = True
    return handle


async def create_async(blueprint: Blueprint) -> AsyncNative:
    attempt = Attempt(blueprint)
    task = asyncio.ensure_future(in_thread(attempt.run))
    try:
        core = await asyncio.shield(task)
    except asyncio.CancelledError:
        attempt.stop()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, SandboxError):
            (await task).close()  # it had come to its end, and the one who waited for it had not heard yet
        raise
    _tell(attempt, core)
    handle = AsyncNative(core)
    core.handed = True
    return handle


def _tell(attempt: Attempt, core: DetachedCore) -> None:
    if not attempt.is_new:
        return
    try:
        core.emit("created", backend=core.info.backend)
    except BaseException:  # a Ctrl-C: nobody will have the handle
        core.close()
        raise


def detached_plan(plan: Sequence[Record]) -> list[Record]:
    return [
        replace(record, flags=record.flags | Mode.DETACHED) if isinstance(record, ModeRecord) else record for record in plan
    ]


def _key(key: str | None, digest: str) -> Key | None:
    return None if key is None else make_key(key, digest.encode())


def _undecided(id: str) -> SandboxError:
    error = SandboxError(f"idempotency_key: another call is still making {id}; ask again with the same key")
    error.retryable, error.outcome = True, "unknown"
    return error


def _listening(path: str) -> socket.socket:
    """Raises `OSError`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        listener.listen(_WAITING)
    except BaseException:
        listener.close()
        raise
    return listener


def _note(core: DetachedCore, blueprint: Blueprint) -> note.Note:
    place, limits = blueprint.holding.place, blueprint.holding.limits
    group = None
    if place is not None and core.group is not None:
        name = name_of_all(blueprint.id)
        group = note.GroupNote(place.version, place.parents, name, limits.memory, limits.pids, limits.cpus)
    return note.Note(core.info, core.env, core.cwd, core.output_quota, core.command_owner, group)
