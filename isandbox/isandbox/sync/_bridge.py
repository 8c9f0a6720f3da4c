"""A blocking sandbox over an async one, for backends without a blocking driver: through one event-loop thread.

One daemon thread for the whole process runs the loop; each call is handed to it and waited for. Ctrl-C in the waiting
thread cancels the call, which ends the command, then goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self, TypeVar

from isandbox.command import MAX_OUTPUT_DEFAULT
from isandbox.errors import ConfigurationError, SandboxClosedError, SandboxError
from isandbox.sync._blocking import refuse_in_loop
from isandbox.sync.process import IProcess
from isandbox.sync.sandbox import ISandbox

if TYPE_CHECKING:
    from isandbox import process, sandbox
    from isandbox.backend import Backend, CreateRequest
    from isandbox.command import ProcessSpec
    from isandbox.events import EventKind, EventSink
    from isandbox.records import ExecResult, FileInfo, Metrics, Offsets, ProcessInfo, SandboxInfo, Stream

T = TypeVar("T")
_END = object()


class _LoopThread:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.owner = os.getpid()

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Wait for ``coroutine`` in the loop's thread. After a fork there is no such thread: `SandboxClosedError`."""
        if os.getpid() != self.owner:
            coroutine.close()
            raise SandboxClosedError("a sandbox does not survive os.fork()")
        try:
            # Also this thread's own loop, where an `on_event` runs: it would wait for itself.
            refuse_in_loop()
        except ConfigurationError:
            coroutine.close()
            raise
        try:
            loop = self._running_loop()
        except BaseException:
            coroutine.close()
            raise
        # Not `run_coroutine_threadsafe`: its future is cancelled at once, whatever the coroutine still has to undo.
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(loop.create_task(coroutine))
            tasks[0].add_done_callback(lambda task: _pass_on(task, outcome))

        loop.call_soon_threadsafe(begin)
        try:
            return outcome.result()
        except BaseException:
            if not outcome.done():
                loop.call_soon_threadsafe(lambda: tasks[0].cancel())  # noqa: PLW0108 - when it has begun
                with contextlib.suppress(FutureCancelledError, Exception):
                    outcome.result(timeout=5)
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                try:
                    loop = asyncio.new_event_loop()
                except OSError as error:
                    raise SandboxError(f"the thread of the blocking interface could not be started: {error}") from error
                try:
                    threading.Thread(target=loop.run_forever, name="isandbox-loop", daemon=True).start()
                except RuntimeError as error:
                    loop.close()
                    raise SandboxError(f"the thread of the blocking interface could not be started: {error}") from error
                self._loop = loop
            return self._loop


def _pass_on(task: asyncio.Task[T], outcome: Future[T]) -> None:
    if task.cancelled():
        outcome.set_exception(FutureCancelledError())
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


_thread = _LoopThread()


def _new_thread() -> None:
    global _thread  # noqa: PLW0603 - the child's own; handles keep the parent's, which refuses
    _thread = _LoopThread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_thread)


def bridge(backend: Backend, request: CreateRequest) -> ISandbox:
    """Make a sandbox with ``backend.create`` and put it behind the blocking port."""
    thread = _thread
    return BridgedSandbox(thread.run(backend.create(request)), thread)


def bridge_connection(backend: Backend, id: str, on_event: EventSink | None) -> ISandbox:
    """The same with ``backend.connect``, for a sandbox that is there already."""
    thread = _thread
    return BridgedSandbox(thread.run(backend.connect(id, on_event)), thread)


class BridgedSandbox(ISandbox):
    def __init__(self, inner: sandbox.ISandbox, thread: _LoopThread) -> None:
        self._inner, self._thread = inner, thread
        self.connected = inner.connected

    @property
    def info(self) -> SandboxInfo:
        return self._inner.info

    def spawn(self, spec: ProcessSpec) -> IProcess:
        return BridgedProcess(self._thread.run(self._inner.spawn(spec)), self._thread)

    def processes(self) -> list[ProcessInfo]:
        return self._thread.run(self._inner.processes())

    def attach(self, id: int, *, since: Offsets | None = None, max_output: int = MAX_OUTPUT_DEFAULT) -> IProcess:
        return BridgedProcess(self._thread.run(self._inner.attach(id, since=since, max_output=max_output)), self._thread)

    def stat(self, path: str, *, user: str | None = None) -> FileInfo:
        return self._thread.run(self._inner.stat(path, user=user))

    def read(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> bytes:
        return self._thread.run(self._inner.read(path, offset=offset, limit=limit, user=user))

    def read_chunks(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> Iterator[bytes]:
        chunks = self._inner.read_chunks(path, offset=offset, limit=limit, user=user)
        try:
            while (chunk := self._thread.run(_next(chunks))) is not None:
                yield chunk
        finally:
            if isinstance(chunks, AsyncGenerator):
                self._thread.run(chunks.aclose())

    def write(
        self,
        path: str,
        data: bytes | Iterable[bytes],
        *,
        mode: int | None = None,
        append: bool = False,
        user: str | None = None,
    ) -> None:
        stream = isinstance(data, Iterable) and not isinstance(data, (bytes, bytearray, memoryview, str))
        given = _from_threads(iter(data)) if stream else data
        self._thread.run(self._inner.write(path, given, mode=mode, append=append, user=user))  # type: ignore[arg-type]

    def list_dir(self, path: str, *, user: str | None = None) -> list[FileInfo]:
        return self._thread.run(self._inner.list_dir(path, user=user))

    def make_dir(self, path: str, *, parents: bool = False, mode: int | None = None, user: str | None = None) -> None:
        self._thread.run(self._inner.make_dir(path, parents=parents, mode=mode, user=user))

    def make_link(self, path: str, target: str, *, user: str | None = None) -> None:
        self._thread.run(self._inner.make_link(path, target, user=user))

    def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        self._thread.run(self._inner.remove(path, recursive=recursive, user=user))

    def rename(self, path: str, target: str, *, user: str | None = None) -> None:
        self._thread.run(self._inner.rename(path, target, user=user))

    def notify(self, kind: EventKind, data: Mapping[str, str | float | bool | None]) -> None:
        self._inner.notify(kind, data)

    def metrics(self) -> Metrics:
        return self._thread.run(self._inner.metrics())

    def renew(self, seconds: float) -> None:
        self._thread.run(self._inner.renew(seconds))

    def pause(self) -> None:
        self._thread.run(self._inner.pause())

    def resume(self) -> None:
        self._thread.run(self._inner.resume())

    def snapshot(self) -> str:
        return self._thread.run(self._inner.snapshot())

    def fork(self) -> Self:
        return type(self)(self._thread.run(self._inner.fork()), self._thread)

    def expose(self, port: int) -> str:
        return self._thread.run(self._inner.expose(port))

    def detach(self) -> None:
        self._thread.run(self._inner.detach())

    def close(self) -> None:
        self._thread.run(self._inner.close())


class BridgedProcess(IProcess):
    def __init__(self, inner: process.IProcess, thread: _LoopThread) -> None:
        self._inner, self._thread = inner, thread

    @property
    def pid(self) -> int | None:
        return self._inner.pid

    @property
    def id(self) -> int | None:
        return self._inner.id

    @property
    def offsets(self) -> Offsets:
        return self._inner.offsets

    def detach(self) -> None:
        self._thread.run(self._inner.detach())

    def wait(self) -> ExecResult:
        return self._thread.run(self._inner.wait())

    def kill(self) -> None:
        self._thread.run(self._inner.kill())

    def signal(self, number: int) -> None:
        self._thread.run(self._inner.signal(number))

    def write_stdin(self, data: bytes) -> None:
        self._thread.run(self._inner.write_stdin(data))

    def close_stdin(self) -> None:
        self._thread.run(self._inner.close_stdin())

    def resize(self, rows: int, columns: int) -> None:
        self._thread.run(self._inner.resize(rows, columns))

    def __iter__(self) -> Iterator[tuple[Stream, bytes]]:
        chunks = aiter(self._inner)
        while (item := self._thread.run(_next(chunks))) is not None:
            yield item


async def _from_threads(chunks: Iterator[Any]) -> AsyncIterator[Any]:
    """A source of the caller's may block, or use the sandbox: not in the thread that serves all of them."""
    while (chunk := await asyncio.to_thread(next, chunks, _END)) is not _END:
        yield chunk


async def _next(chunks: AsyncIterator[T]) -> T | None:
    return await anext(chunks, None)
