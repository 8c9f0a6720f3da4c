"""The file verbs of a native sandbox, behind both interfaces: one operation of the helper each, streams included."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import isandbox.sandbox
import isandbox.sync.sandbox
from isandbox._aio import in_thread
from isandbox._verbs import check_data
from isandbox.sync._blocking import refuse_in_loop
from isandbox_backends._shared import fileverbs
from isandbox_backends._shared.blocking import BlockingProcess
from isandbox_backends._shared.protocol import FileOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from isandbox.events import EventKind
    from isandbox.records import FileInfo
    from isandbox_backends._shared.aio import AsyncProcess
    from isandbox_backends._shared.core import Core
    from isandbox_backends._shared.endpoints import Endpoints
    from isandbox_backends._shared.exchange import Exchange
    from isandbox_backends._shared.fileverbs import FileCall

T = TypeVar("T")

# A listing of more bytes is read in a thread: a command decides how long a directory is, and the loop is not its own.
_QUICK = 64 << 10


class AsyncFileVerbs(isandbox.sandbox.ISandbox):
    """What the async driver does for files."""

    _core: Core

    @abstractmethod
    def _check_loop(self) -> None: ...

    @abstractmethod
    def _process(self, ends: Endpoints, exchange: Exchange, on_end: Callable[[], None]) -> AsyncProcess: ...

    def _start_file(self, call: FileCall[T], user: str | None) -> tuple[AsyncProcess, Exchange]:
        self._check_loop()
        ends, exchange = self._core.begin_file(call, user)
        return self._process(ends, exchange, lambda: self._core.file_ended(exchange)), exchange

    async def _file(self, call: FileCall[T], user: str | None) -> T:
        process, exchange = self._start_file(call, user)
        try:
            await process.run_to_end()
        except BaseException:
            await process.kill()
            raise
        with self._core.believing():
            raw = self._core.file_answer(call, exchange)
            if call.operation is not FileOperation.LIST or len(raw) <= _QUICK:
                return call.parse(raw)
            return await in_thread(call.parse, raw)

    async def _feed(self, call: FileCall[None], source: AsyncIterable[bytes], user: str | None) -> None:
        process, exchange = self._start_file(call, user)
        try:
            async for chunk in source:
                try:
                    await process.write_stdin(check_data(chunk))
                except BrokenPipeError:  # it has failed, and its end says why
                    break
            await process.close_stdin()
            await process.run_to_end()
        except BaseException:
            await process.kill()
            await process.run_to_end()
            raise
        self._core.file_value(call, exchange)

    async def stat(self, path: str, *, user: str | None = None) -> FileInfo:
        return await self._file(fileverbs.stat_entry(path), user)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> bytes:
        return await self._file(fileverbs.read(path, offset, limit), user)

    async def read_chunks(
        self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None
    ) -> AsyncIterator[bytes]:
        call = fileverbs.read_chunks(path, offset, limit)
        process, exchange = self._start_file(call, user)
        try:
            async with contextlib.aclosing(aiter(process)) as output:
                async for stream, chunk in output:
                    if stream == "stdout":
                        yield chunk
        finally:
            await process.kill()
            await process.run_to_end()
        self._core.check_file(call, exchange)

    async def write(
        self,
        path: str,
        data: bytes | AsyncIterable[bytes],
        *,
        mode: int | None = None,
        append: bool = False,
        user: str | None = None,
    ) -> None:
        if isinstance(data, AsyncIterable):
            await self._feed(fileverbs.write_chunks(path, mode, append), data, user)
        else:
            await self._file(fileverbs.write(path, data, mode, append), user)

    async def list_dir(self, path: str, *, user: str | None = None) -> list[FileInfo]:
        return await self._file(fileverbs.list_dir(path), user)

    async def make_dir(self, path: str, *, parents: bool = False, mode: int | None = None, user: str | None = None) -> None:
        await self._file(fileverbs.make_dir(path, parents, mode), user)

    async def make_link(self, path: str, target: str, *, user: str | None = None) -> None:
        await self._file(fileverbs.make_link(path, target), user)

    async def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        await self._file(fileverbs.remove(path, recursive), user)

    async def rename(self, path: str, target: str, *, user: str | None = None) -> None:
        await self._file(fileverbs.rename(path, target), user)

    def notify(self, kind: EventKind, data: Mapping[str, str | float | bool | None]) -> None:
        self._core.emit(kind, **data)


class BlockingFileVerbs(isandbox.sync.sandbox.ISandbox):
    """What the blocking driver does for files."""

    _core: Core

    def _start_file(self, call: FileCall[T], user: str | None) -> tuple[BlockingProcess, Exchange]:
        refuse_in_loop()
        ends, exchange = self._core.begin_file(call, user)
        return BlockingProcess(self._core.client, ends, exchange, lambda: self._core.file_ended(exchange)), exchange

    def _file(self, call: FileCall[T], user: str | None) -> T:
        process, exchange = self._start_file(call, user)
        try:
            process.run_to_end()
        except BaseException:
            process.kill()
            raise
        return self._core.file_value(call, exchange)

    def _feed(self, call: FileCall[None], source: Iterable[bytes], user: str | None) -> None:
        process, exchange = self._start_file(call, user)
        try:
            for chunk in source:
                try:
                    process.write_stdin(check_data(chunk))
                except BrokenPipeError:  # it has failed, and its end says why
                    break
            process.close_stdin()
            process.run_to_end()
        except BaseException:
            process.kill()
            process.run_to_end()
            raise
        self._core.file_value(call, exchange)

    def stat(self, path: str, *, user: str | None = None) -> FileInfo:
        return self._file(fileverbs.stat_entry(path), user)

    def read(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> bytes:
        return self._file(fileverbs.read(path, offset, limit), user)

    def read_chunks(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> Iterator[bytes]:
        call = fileverbs.read_chunks(path, offset, limit)
        process, exchange = self._start_file(call, user)
        try:
            for stream, chunk in process:
                if stream == "stdout":
                    yield chunk
        finally:
            process.kill()
            process.run_to_end()
        self._core.check_file(call, exchange)

    def write(
        self,
        path: str,
        data: bytes | Iterable[bytes],
        *,
        mode: int | None = None,
        append: bool = False,
        user: str | None = None,
    ) -> None:
        if isinstance(data, Iterable) and not isinstance(data, (bytes, bytearray, memoryview, str)):
            self._feed(fileverbs.write_chunks(path, mode, append), data, user)
        else:
            self._file(fileverbs.write(path, data, mode, append), user)

    def list_dir(self, path: str, *, user: str | None = None) -> list[FileInfo]:
        return self._file(fileverbs.list_dir(path), user)

    def make_dir(self, path: str, *, parents: bool = False, mode: int | None = None, user: str | None = None) -> None:
        self._file(fileverbs.make_dir(path, parents, mode), user)

    def make_link(self, path: str, target: str, *, user: str | None = None) -> None:
        self._file(fileverbs.make_link(path, target), user)

    def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        self._file(fileverbs.remove(path, recursive), user)

    def rename(self, path: str, target: str, *, user: str | None = None) -> None:
        self._file(fileverbs.rename(path, target), user)

    def notify(self, kind: EventKind, data: Mapping[str, str | float | bool | None]) -> None:
        self._core.emit(kind, **data)
