"""A handle on a detached sandbox that is there already."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from isandbox._aio import in_thread
from isandbox._state.ids import is_id
from isandbox.errors import SandboxBusyError, SandboxError, SandboxNotFoundError, StateError, UnsupportedError
from isandbox_backends._shared.client import HelperStartError
from isandbox_backends._shared.detached import note
from isandbox_backends._shared.detached.connection import Connection, OtherVersionError, TurnedAwayError
from isandbox_backends._shared.detached.core import DetachedCore, SharedCore
from isandbox_backends._shared.detached.groups import join
from isandbox_backends._shared.detached.processes import first_processes, is_owned, open_named
from isandbox_backends._shared.detached.removal import finish
from isandbox_backends._shared.detached.state import State
from isandbox_backends._shared.native import AsyncNative, BlockingNative
from isandbox_backends._shared.protocol import PROTOCOL_VERSION

if TYPE_CHECKING:
    from isandbox._state.entry import Entry
    from isandbox.events import EventSink

# A helper greets at once; and the doorkeeper lets in at once.
_PATIENCE = 10.0
# From the end of a first process's descriptors to the end of its lock.
_ENDING = 0.5


async def connect_async(backend: str, id: str, on_event: EventSink | None) -> AsyncNative:
    core = _told(await in_thread(connect, backend, id, on_event))
    handle = AsyncNative(core, connected=True)
    core.handed = True
    return handle


def connect_blocking(backend: str, id: str, on_event: EventSink | None) -> BlockingNative:
    core = _told(connect(backend, id, on_event))
    handle = BlockingNative(core, connected=True)
    core.handed = True
    return handle


def _told(core: DetachedCore) -> DetachedCore:
    try:
        core.emit("connected")
    except BaseException:  # a Ctrl-C: nobody will have the handle
        core.let_go()
        raise
    return core


def connect(backend: str, id: str, on_event: EventSink | None) -> DetachedCore:
    """Blocking, for some seconds at most. Raises what `isandbox.connect` promises."""
    state = State.open()
    if state is None:
        raise not_found(backend, id)
    with state:
        entry = find(state, backend, id)
        link = _greeted(state, entry)
        try:
            return _core(entry, link, on_event)
        except note.NotSealedError as error:
            link.let_go()
            raise SandboxBusyError(f"sandbox {id} is still being made; try again") from error
        except BaseException:
            link.let_go()
            raise


def find(state: State, backend: str, id: str) -> Entry:
    """The entry of a sandbox that lives. Raises `SandboxNotFoundError`, `SandboxBusyError`, `StateError`, `UnsupportedError`."""
    entry = state.register.get(id) if is_id(id) else None
    if entry is None or entry.backend != backend:
        raise not_found(backend, id)
    fate = state.fate(entry)
    if fate == "elsewhere":
        raise SandboxNotFoundError(
            f"sandbox {id} is another machine's or pid namespace's, which shares {state.directory.path}: use it from there"
        )
    if fate == "dead":
        finish(state, id, entry.resources)
        raise SandboxNotFoundError(f"sandbox {id} has ended")
    if entry.state == "starting":
        raise SandboxBusyError(f"sandbox {id} is still being made; try again")
    return entry


def not_found(backend: str, id: str) -> SandboxError:
    """Of an id that the register does not have."""
    if any(helper.id == id and is_owned(helper) for helper in first_processes()):
        return UnsupportedError(
            f"sandbox {id} is owned by the process that made it, and reached by nobody else; make it with detached=True",
            option="connect",
            backend=backend,
        )
    return SandboxNotFoundError(f"you have no sandbox {id} on this machine")


def _greeted(state: State, entry: Entry) -> Connection:
    link = open_connection(state, entry)
    try:
        link.wait_ready(time.monotonic() + _PATIENCE)
    except TurnedAwayError as error:
        link.let_go()
        if state.wait_until_free(entry.id, _ENDING):  # it turns nobody away then, it is going
            raise SandboxNotFoundError(f"sandbox {entry.id} has ended") from error
        raise SandboxBusyError(f"sandbox {entry.id} takes no more clients; try again when one has gone") from error
    except OtherVersionError as error:
        link.let_go()
        raise SandboxError(
            f"sandbox {entry.id} speaks protocol {error.version}, and this isandbox {PROTOCOL_VERSION}: use the version that made "
            f"it, or end it with: isandbox kill {entry.id}"
        ) from error
    except HelperStartError as error:
        link.let_go()
        raise SandboxError(f"sandbox {entry.id} does not answer as it should: {error}") from error
    except BaseException:
        link.let_go()
        raise
    return link


def open_connection(state: State, entry: Entry) -> Connection:
    """Connected, and nothing said yet. Raises `SandboxError`."""
    directory = state.places.open(entry.id)
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if directory is None:
            raise SandboxNotFoundError(f"sandbox {entry.id} has ended")
        connected.settimeout(_PATIENCE)
        connected.connect(f"/proc/self/fd/{directory}/control")
        _check_peer(connected, entry.id)
        pidfd = None if entry.helper is None else open_named(entry.helper.process)
        pid = entry.helper.process.pid if entry.helper is not None and pidfd is not None else None
        return Connection(connected, pid, -1 if pidfd is None else pidfd)
    except OSError as error:
        connected.close()
        raise _unreachable(state, entry, error) from error
    except BaseException:
        connected.close()
        raise
    finally:
        if directory is not None:
            with contextlib.suppress(OSError):
                os.close(directory)


def _check_peer(connected: socket.socket, id: str) -> None:
    """Whoever listens must be us: the kernel keeps the credentials of the process that began to listen (unix(7))."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    uid = struct.unpack("iII", raw)[1]
    if uid != os.geteuid():
        raise StateError(f"the socket of sandbox {id} is uid {uid}'s, not uid {os.geteuid()}'s: somebody has put it there")


def _unreachable(state: State, entry: Entry, error: OSError) -> SandboxError:
    if isinstance(error, BlockingIOError):
        return SandboxBusyError(f"sandbox {entry.id}: too many clients wait to be let in; try again")
    if state.wait_until_free(entry.id, _ENDING):
        return SandboxNotFoundError(f"sandbox {entry.id} has ended")
    return SandboxError(f"sandbox {entry.id} lives, and cannot be reached: {error}; end it with: isandbox kill {entry.id}")


def _core(entry: Entry, link: Connection, on_event: EventSink | None) -> DetachedCore:
    fd = link.take_note()
    try:
        found = note.read(fd)
    finally:
        os.close(fd)
    if found.info.id != entry.id or found.info.backend != entry.backend:
        raise note.NoteError(f"the helper of sandbox {entry.id} gave the note of another one")
    # By its labels a program decides what a sandbox is for: they are the register's, which nothing inside can have written.
    info = replace(found.info, labels=entry.labels)
    group = None if found.group is None else join(found.group, entry.resources, link.number)
    return SharedCore(
        client=link,
        info=info,
        env=found.env,
        cwd=found.cwd,
        output_quota=found.output_quota,
        command_owner=found.command_owner,
        group=group,
        life=entry.lifetime is not None,
        on_event=on_event,
        resources=entry.resources,
    )
