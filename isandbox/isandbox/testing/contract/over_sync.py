"""A blocking sandbox behind the async port, so that one list of promises covers both interfaces.

Every call runs in a worker thread, as a user of the blocking interface would call it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from isandbox.process import IProcess
from isandbox.sandbox import ISandbox

if TYPE_CHECKING:
    from isandbox import sync
    from isandbox.command import ProcessSpec
    from isandbox.records import ExecResult, FileInfo, Metrics, SandboxInfo, Stream

T = TypeVar("T")
_END = object()


# Enough for a test's concurrent calls; shared, so that a closed sandbox can still be asked.
_POOL = ThreadPoolExecutor(max_workers=64, thread_name_prefix="over-sync")


async def _call(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(_POOL, lambda: function(*arguments, **named))


class OverSyncProcess(IProcess):
    def __init__(self, inner: sync.IProcess) -> None:
        self._inner = inner

    @property
    def pid(self) -> int | None:
        return self._inner.pid

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


class OverSync(ISandbox):
    """``inner`` is a sandbox of `isandbox.sync`."""

    def __init__(self, inner: sync.ISandbox) -> None:
        self.inner = inner

    @property
    def info(self) -> SandboxInfo:
        return self.inner.info

    async def spawn(self, spec: ProcessSpec) -> IProcess:
        return OverSyncProcess(await _call(self.inner.spawn, spec))

    async def stat(self, path: str) -> FileInfo:
        return await _call(self.inner.stat, path)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        return await _call(self.inner.read, path, offset=offset, limit=limit)

    async def write(self, path: str, data: bytes, *, mode: int | None = None, append: bool = False) -> None:
        await _call(self.inner.write, path, data, mode=mode, append=append)

    async def list_dir(self, path: str) -> list[FileInfo]:
        return await _call(self.inner.list_dir, path)

    async def make_dir(self, path: str, *, parents: bool = False) -> None:
        await _call(self.inner.make_dir, path, parents=parents)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        await _call(self.inner.remove, path, recursive=recursive)

    async def rename(self, path: str, target: str) -> None:
        await _call(self.inner.rename, path, target)

    async def metrics(self) -> Metrics:
        return await _call(self.inner.metrics)

    async def renew(self, seconds: float) -> None:
        await _call(self.inner.renew, seconds)

    async def close(self) -> None:
        await _call(self.inner.close)


class OverSyncCreation:
    """What the contract's ``create`` returns for the blocking interface: options are checked at once, as there."""

    def __init__(self, create: Callable[[], sync.ISandbox]) -> None:
        self._create = create
        self._sandbox: OverSync | None = None

    async def _make(self) -> OverSync:
        self._sandbox = OverSync(await asyncio.to_thread(self._create))
        return self._sandbox

    def __await__(self) -> Any:
        return self._make().__await__()

    async def __aenter__(self) -> OverSync:
        return await self._make()

    async def __aexit__(self, *details: object) -> None:
        if self._sandbox is not None:
            await self._sandbox.close()

    def __enter__(self) -> None:
        raise TypeError("this wrapper is for 'async with' only")

    def __exit__(self, *details: object) -> None:
        return None
