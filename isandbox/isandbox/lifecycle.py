"""Sandboxes that are there already: find them, reach them, end them, and remove what dead owners left."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from isandbox._aio import in_thread
from isandbox._finding import backend_for, chosen, listed, reaped
from isandbox._request import check_sink
from isandbox.errors import SandboxClosedError, SandboxLostError

if TYPE_CHECKING:
    from types import TracebackType

    from isandbox.backend import Backend
    from isandbox.events import EventSink
    from isandbox.records import ReapReport, SandboxSummary
    from isandbox.sandbox import ISandbox


class Connection:
    """What `connect` returns: ``await`` it for a handle to `detach` or close yourself, or use it with ``async with``."""

    def __init__(self, backend: Backend, id: str, on_event: EventSink | None) -> None:
        self._backend, self._id, self._on_event = backend, id, on_event
        self._sandbox: ISandbox | None = None

    def __await__(self) -> Generator[Any, None, ISandbox]:
        return self._backend.connect(self._id, self._on_event).__await__()

    async def __aenter__(self) -> ISandbox:
        self._sandbox = await self._backend.connect(self._id, self._on_event)
        return self._sandbox

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sandbox is not None:
            with suppress(SandboxClosedError, SandboxLostError):  # closed or ended by now: there is nothing to let go of
                await self._sandbox.detach()

    if not TYPE_CHECKING:  # a type checker is to say so before the program runs

        def __enter__(self) -> NoReturn:
            raise TypeError(
                "connect() is async: write 'async with connect(...) as sbx:', or use the blocking "
                "'from isandbox.sync import connect'"
            )

        def __exit__(self, *details: object) -> None:
            return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self._id}>"


def connect(id: str, *, on_event: EventSink | None = None) -> Connection:
    """A handle on a detached sandbox, also one that another process made. ``await`` the value, or use it with ``async with``.

    Leaving the context lets go of the sandbox, which lives on; `ISandbox.close` destroys it, for everybody. It has the files,
    environment, quotas and labels that it was made with; several handles at once do not disturb each other. ``on_event`` hears
    what this handle does and finds out.

    **Errors.** `ConfigurationError` in the call, for what is no id of a backend here: the prefix says which backend. When it is
    awaited `SandboxNotFoundError` for one that is not there, has ended, or is another user's; `SandboxBusyError` when it takes
    no more clients; `UnsupportedError` for an owned sandbox, which only its owner reaches, and for a backend without ``detach``.

    **Cancellation** leaves no connection behind.
    """
    backend = backend_for(id)
    check_sink(on_event)
    return Connection(backend, id, on_event)


async def list_sandboxes(type: str | None = None, labels: Mapping[str, str] | None = None) -> list[SandboxSummary]:
    """Your sandboxes, oldest first; with ``labels`` those that have all of these.

    Without a ``type`` those of the backends of this machine; a service elsewhere is asked when it is named, and only then.
    Owned sandboxes of other processes are among them where they can be seen. Another user's are not. What is listed may have
    ended by the time you look at it.
    """
    return await in_thread(listed, chosen(type), labels)


async def kill_sandbox(id: str) -> bool:
    """End a sandbox, whoever uses it, and remove what it made. ``True`` when it lived, ``False`` when it had ended.

    Returns when it is gone. Works for a sandbox of another version of isandbox too. `ConfigurationError` for what is no id,
    `SandboxNotFoundError` for one that nobody here has heard of.

    **Cancellation** waits for what has begun, then goes on.
    """
    return await in_thread(backend_for(id).kill, id)


async def reap() -> ReapReport:
    """Remove what dead owners and ended sandboxes left on this machine: processes, directories, control groups.

    Never anything of what lives, and nothing of which that cannot be told: of another machine that shares the state
    directory, of another pid namespace. Safe to run twice at once, and at any time.
    """
    return await in_thread(reaped)
