"""A blocking sandbox behind the async port, so that one list of promises covers both interfaces.

Every call runs in a worker thread, as a user of the blocking interface would call it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from isandbox import sync
from isandbox.command import MAX_OUTPUT_DEFAULT
from isandbox.errors import ConfigurationError
from isandbox.files.comfort import Files
from isandbox.process import IProcess
from isandbox.sandbox import ISandbox
from isandbox.testing.contract.base import Contract, blocking_of

if TYPE_CHECKING:
    from isandbox.command import ProcessSpec
    from isandbox.records import (
        ExecResult,
        FileInfo,
        Metrics,
        Offsets,
        ProcessInfo,
        ReapReport,
        SandboxInfo,
        SandboxSummary,
        Stream,
        Transfer,
    )

T = TypeVar("T")
_END = object()


class _Threads:
    """Enough for a test's concurrent calls; shared, so that a closed sandbox can still be asked."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)  # a forked child has none of its parent's threads

    def renew(self) -> None:
        self.pool = ThreadPoolExecutor(max_workers=64, thread_name_prefix="over-sync")


_THREADS = _Threads()


async def _call(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    calling = asyncio.get_running_loop().run_in_executor(_THREADS.pool, lambda: function(*arguments, **named))
    calling.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody waits for it any more
    return await asyncio.shield(calling)  # a thread cannot be cancelled, but one that has not begun could be dropped


class OverSyncProcess(IProcess):
    def __init__(self, inner: sync.IProcess) -> None:
        self._inner = inner

    @property
    def pid(self) -> int | None:
        return self._inner.pid

    @property
    def id(self) -> int | None:
        return self._inner.id

    @property
    def offsets(self) -> Offsets:
        return self._inner.offsets

    async def detach(self) -> None:
        await _call(self._inner.detach)

    async def wait(self) -> ExecResult:
        return await _call(self._inner.wait)

    async def kill(self) -> None:
        await _call(self._inner.kill)

    async def signal(self, number: int) -> None:
        await _call(self._inner.signal, number)

    async def write_stdin(self, data: bytes) -> None:
        await _call(self._inner.write_stdin, data)

    async def close_stdin(self) -> None:
        await _call(self._inner.close_stdin)

    async def resize(self, rows: int, columns: int) -> None:
        await _call(self._inner.resize, rows, columns)

    async def __aiter__(self) -> AsyncIterator[tuple[Stream, bytes]]:
        chunks = iter(self._inner)
        while (item := await _call(next, chunks, _END)) is not _END:
            yield item


class _Pulled:
    """An async source for a thread: each chunk is asked for in the loop that made this."""

    def __init__(self, source: AsyncIterable[bytes]) -> None:
        self._chunks = aiter(source)
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._asked: Future[Any] | None = None

    def __iter__(self) -> _Pulled:
        return self

    def __next__(self) -> bytes:
        self._asked = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
        if self._stop.is_set():  # after the assignment: `cancel` looks in the other order
            self._asked.cancel()
        chunk = self._asked.result()
        if chunk is _END:
            raise StopIteration
        return chunk  # type: ignore[no-any-return]

    async def _next(self) -> Any:
        return await anext(self._chunks, _END)

    def cancel(self) -> None:
        self._stop.set()
        if self._asked is not None:
            self._asked.cancel()


class OverSyncFiles(Files):
    """Transfers are the blocking interface's own; all else is its verbs."""

    def __init__(self, sandbox: OverSync) -> None:
        super().__init__(sandbox)
        self._inner = sandbox.inner.files

    async def upload(self, *arguments: Any, **options: Any) -> Transfer:
        return await _call(self._inner.upload, *arguments, **options)

    async def upload_archive(self, *arguments: Any, **options: Any) -> Transfer:
        return await _call(self._inner.upload_archive, *arguments, **options)

    async def download(self, *arguments: Any, **options: Any) -> Transfer:
        return await _call(self._inner.download, *arguments, **options)


class OverSync(ISandbox):
    """``inner`` is a sandbox of `isandbox.sync`."""

    def __init__(self, inner: sync.ISandbox) -> None:
        self.inner = inner
        self.connected = inner.connected
        self._home = os.getpid(), asyncio.get_running_loop()

    @property
    def info(self) -> SandboxInfo:
        return self.inner.info

    @cached_property
    def files(self) -> Files:
        return OverSyncFiles(self)

    async def spawn(self, spec: ProcessSpec) -> IProcess:
        process, loop = self._home
        if process == os.getpid() and loop is not asyncio.get_running_loop():
            raise ConfigurationError("an async sandbox belongs to the event loop that made it")
        spawning = asyncio.ensure_future(_call(self.inner.spawn, spec))
        try:
            return OverSyncProcess(await asyncio.shield(spawning))
        except asyncio.CancelledError:  # nobody will have the handle
            await _call((await spawning).kill)
            raise

    async def processes(self) -> list[ProcessInfo]:
        return await _call(self.inner.processes)

    async def attach(self, id: int, *, since: Offsets | None = None, max_output: int = MAX_OUTPUT_DEFAULT) -> IProcess:
        return OverSyncProcess(await _call(self.inner.attach, id, since=since, max_output=max_output))

    async def stat(self, path: str, *, user: str | None = None) -> FileInfo:
        return await _call(self.inner.stat, path, user=user)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> bytes:
        return await _call(self.inner.read, path, offset=offset, limit=limit, user=user)

    async def read_chunks(
        self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None
    ) -> AsyncIterator[bytes]:
        chunks = self.inner.read_chunks(path, offset=offset, limit=limit, user=user)
        try:
            while (chunk := await _call(next, chunks, _END)) is not _END:
                yield chunk
        finally:
            await _call(chunks.close)  # type: ignore[attr-defined]

    async def write(
        self,
        path: str,
        data: bytes | AsyncIterable[bytes],
        *,
        mode: int | None = None,
        append: bool = False,
        user: str | None = None,
    ) -> None:
        options = {"mode": mode, "append": append, "user": user}
        if not isinstance(data, AsyncIterable):
            await _call(self.inner.write, path, data, **options)
            return
        source = _Pulled(data)
        call = asyncio.ensure_future(_call(self.inner.write, path, source, **options))
        try:
            await asyncio.shield(call)
        except asyncio.CancelledError:  # a thread cannot be cancelled: its source fails instead
            source.cancel()
            await asyncio.wait({call})
            if not call.cancelled():
                call.exception()
            raise

    async def list_dir(self, path: str, *, user: str | None = None) -> list[FileInfo]:
        return await _call(self.inner.list_dir, path, user=user)

    async def make_dir(self, path: str, *, parents: bool = False, mode: int | None = None, user: str | None = None) -> None:
        await _call(self.inner.make_dir, path, parents=parents, mode=mode, user=user)

    async def make_link(self, path: str, target: str, *, user: str | None = None) -> None:
        await _call(self.inner.make_link, path, target, user=user)

    async def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        await _call(self.inner.remove, path, recursive=recursive, user=user)

    async def rename(self, path: str, target: str, *, user: str | None = None) -> None:
        await _call(self.inner.rename, path, target, user=user)

    async def metrics(self) -> Metrics:
        return await _call(self.inner.metrics)

    async def renew(self, seconds: float) -> None:
        await _call(self.inner.renew, seconds)

    async def pause(self) -> None:
        await _call(self.inner.pause)

    async def resume(self) -> None:
        await _call(self.inner.resume)

    async def snapshot(self) -> str:
        return await _call(self.inner.snapshot)

    async def fork(self) -> OverSync:
        return OverSync(await _call(self.inner.fork))

    async def expose(self, port: int) -> str:
        return await _call(self.inner.expose, port)

    async def detach(self) -> None:
        await _call(self.inner.detach)

    async def close(self) -> None:
        await _call(self.inner.close)

    async def __aexit__(self, *details: object) -> None:
        await _call(self.inner.__exit__, None, None, None)  # its own way to leave: close, or let go


class OverSyncCreation:
    """What the contract's ``create`` returns for the blocking interface: options are checked at once, as there."""

    def __init__(self, make: Callable[[], sync.ISandbox], *, shared: bool = False) -> None:
        self.make, self._shared = make, shared
        self._sandbox: OverSync | None = None

    async def _create(self) -> OverSync:
        making = asyncio.ensure_future(asyncio.to_thread(self.make))
        try:
            inner = await asyncio.shield(making)
        except (
            asyncio.CancelledError
        ):  # a thread cannot be cancelled: what it makes is closed, or let go where others have it too
            inner = await making
            await _call(inner.detach if self._shared else inner.close)
            raise
        self._sandbox = OverSync(inner)
        return self._sandbox

    def __await__(self) -> Any:
        return self._create().__await__()

    async def __aenter__(self) -> OverSync:
        return await self._create()

    async def __aexit__(self, *details: object) -> None:
        if self._sandbox is not None:
            await self._sandbox.__aexit__(*details)

    def __enter__(self) -> None:
        raise TypeError("this wrapper is for 'async with' only, as is what async create_sandbox and connect return")

    def __exit__(self, *details: object) -> None:
        return None


class ThroughSync(Contract):
    """Put it before a contract class, and every promise is held through `isandbox.sync` instead, a thread for each call::

    class TestMoonBlocking(ThroughSync, TestMoon): ...
    """

    @classmethod
    def create(cls, **options: Any) -> Any:
        made = super().create(**options)
        return OverSyncCreation(lambda: blocking_of(made), shared=options.get("idempotency_key") is not None)

    @classmethod
    def connect(cls, id: str, **options: Any) -> Any:
        super().connect(id, **options)  # what is wrong with the arguments is said at once
        return OverSyncCreation(lambda: sync.connect(id, **options), shared=True)

    @classmethod
    async def list_sandboxes(cls, **filters: Any) -> list[SandboxSummary]:
        return await _call(sync.list_sandboxes, **filters)

    @classmethod
    async def kill_sandbox(cls, id: str) -> bool:
        return await _call(sync.kill_sandbox, id)

    @classmethod
    async def reap(cls) -> ReapReport:
        return await _call(sync.reap)

    async def lose(self, sandbox: ISandbox) -> None:
        inner: Any = sandbox.inner if isinstance(sandbox, OverSync) else sandbox
        await super().lose(inner)
