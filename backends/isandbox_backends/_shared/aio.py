"""asyncio driver: the command's pipes are readers of the running loop; no transports, no thread."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from isandbox.command import check_signal
from isandbox.errors import UnsupportedError
from isandbox.process import IProcess
from isandbox.records import STREAMS, Offsets, TerminalSize
from isandbox_backends._shared.drain import drain
from isandbox_backends._shared.endpoints import OutputReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from isandbox.records import ExecResult, Stream
    from isandbox_backends._shared.endpoints import Endpoints
    from isandbox_backends._shared.exchange import Exchange
    from isandbox_backends._shared.link import HelperLink

# Chunks that wait for an iteration; past it the pipe fills and the command is slowed.
_QUEUE_LIMIT = 1 << 20


class AsyncProcess(IProcess):
    """A command of a native sandbox. Its output is read while somebody waits or iterates, not before."""

    def __init__(self, client: HelperLink, ends: Endpoints, exchange: Exchange, on_end: Callable[[], None]) -> None:
        self._client, self._ends, self._exchange, self._on_end = client, ends, exchange, on_end
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._news = asyncio.Event()
        self._chunks: deque[tuple[Stream, bytes]] = deque()
        self._queued = 0
        self._dropped: dict[Stream, int] = dict.fromkeys(STREAMS, 0)
        self._keeping = False
        self._waiting = 0
        self._stdin_turn = asyncio.Lock()
        self._writable: asyncio.Future[None] | None = None
        self._reading: set[int] = set()
        self._reader = OutputReader()
        self._timer: asyncio.TimerHandle | None = None
        self._kill_sent = False
        try:
            self._loop.add_reader(ends.status, self._take_status)
            if ends.pending:
                self._loop.add_writer(ends.stdin, self._feed_stdin)
        except BaseException:  # the loop must not know numbers that are closed next
            self._forget_descriptors()
            raise
        self._set_timer()

    @property
    def pid(self) -> int | None:
        return self._exchange.pid

    @property
    def id(self) -> int | None:
        return self._exchange.serial

    @property
    def offsets(self) -> Offsets:
        return self._exchange.offsets(self._dropped, list(self._chunks))

    async def await_started(self) -> None:
        """Until the pid is known or the start has failed."""
        self._exchange.wants_start = True
        self._set_timer()
        while self._exchange.pid is None and not self._exchange.exited and not self._exchange.finished:
            self._news.clear()
            await self._news.wait()

    async def wait(self) -> ExecResult:
        await self.run_to_end()
        return self._exchange.result(closed=self._client.closed)

    async def run_to_end(self) -> None:
        if not self._ended.done():
            if not self._keeping:
                self._resume_reading()
            self._waiting += 1
            try:
                await asyncio.shield(self._ended)
            finally:
                self._waiting -= 1

    async def __aiter__(self) -> AsyncGenerator[tuple[Stream, bytes], None]:
        self._keeping = True
        try:
            while True:
                if self._chunks:
                    stream, chunk = self._chunks.popleft()
                    self._queued -= len(chunk)
                    yield stream, chunk
                elif self._ended.done():
                    return
                else:
                    self._news.clear()
                    self._resume_reading()
                    await self._news.wait()
        finally:
            self._keeping = False
            for stream, chunk in self._chunks:
                self._dropped[stream] += len(chunk)
            self._chunks.clear()
            self._queued = 0
            if (self._waiting or self._exchange.exited) and not self._ended.done():
                self._resume_reading()  # whoever waits had left that to the iteration

    def _resume_reading(self) -> None:
        self._exchange.resume(time.monotonic())
        for fd in self._ends.outputs:
            if fd not in self._reading:
                self._reading.add(fd)
                self._loop.add_reader(fd, self._take_output, fd)
        self._set_timer()

    def _stop_reading(self, fd: int) -> None:
        if fd in self._reading:
            self._reading.discard(fd)
            self._loop.remove_reader(fd)

    def _take_status(self) -> None:
        if self._client.closed and not self._exchange.exited:  # what is reported from now on is the end that closing gave it
            self._exchange.give_up()
            self._after()
            return
        data = os.read(self._ends.status, 4096)
        if not data:
            self._loop.remove_reader(self._ends.status)
            self._ends.close_status()
        self._exchange.status(data, time.monotonic())
        if self._exchange.exited and not self._keeping:
            self._resume_reading()  # a handle that nobody waits for still comes to its end
        self._after()

    def _take_output(self, fd: int) -> None:
        now = time.monotonic()
        data = self._reader.read(self._ends, fd)
        if data is None:
            return
        stream = self._ends.outputs[fd]
        if not data:
            self._stop_reading(fd)
            self._ends.close_output(fd)
            self._exchange.output_ended(stream)
            self._after()
            return
        self._exchange.output(stream, data, now)
        if self._keeping:
            self._chunks.append((stream, bytes(data)))
            self._queued += len(data)
            if self._queued > _QUEUE_LIMIT:
                self._exchange.pause(now)
                for output in self._ends.outputs:
                    self._stop_reading(output)
        self._after()

    def _feed_stdin(self) -> None:
        fd = self._ends.stdin
        if fd < 0 or not self._ends.feed_stdin():
            self._loop.remove_writer(fd)

    def _after(self) -> None:
        """Something was taken in: pass it on, send a kill that is due, finish, or set the clock."""
        self._exchange.advance(time.monotonic())
        self._news.set()
        if self._exchange.over_output and not self._kill_sent:
            self._send_kill("output")
        if self._exchange.finished and not self._ended.done():
            self._finish()
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        due = self._exchange.due()
        if self._timer is not None:
            # Output moves the moment on; a timer that fires early only looks and sets itself again.
            if due is not None and self._timer.when() <= self._loop.time() + (due - time.monotonic()):
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = self._loop.call_later(max(0.0, due - time.monotonic()), self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._after()

    def _finish(self) -> None:
        """Close what is ours; what a background child still writes goes to the drain."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._forget_descriptors()
        self._ends.give_rest_to(drain)
        self._ends.close()
        self._stdin_is_news()
        if self._exchange.lost is not None and not self._client.closed:
            self._client.destroy()
        self._ended.set_result(None)
        self._on_end()

    def _forget_descriptors(self) -> None:
        if self._ends.status >= 0:
            self._loop.remove_reader(self._ends.status)
        if self._ends.stdin >= 0:
            self._loop.remove_writer(self._ends.stdin)
        for fd in list(self._reading):
            self._stop_reading(fd)

    def _send_kill(self, fault: str) -> None:
        self._kill_sent = True
        self._client.kill(self._ends.id, fault)
        self._exchange.expect_end(time.monotonic())
        self._set_timer()

    async def kill(self) -> None:
        if not self._exchange.exited and not self._exchange.finished:
            self._send_kill("cancelled")
            self._keeping = False
            self._resume_reading()
            await asyncio.shield(self._ended)

    async def signal(self, number: int) -> None:
        checked = check_signal(number)
        if not self._exchange.exited:
            self._client.signal(self._ends.id, checked)

    async def write_stdin(self, data: bytes) -> None:
        left = memoryview(data)
        async with self._stdin_turn:
            while left:
                if self._ends.stdin < 0:
                    raise BrokenPipeError("stdin is closed")
                try:
                    left = left[os.write(self._ends.stdin, left) :]
                except BlockingIOError:
                    await self._stdin_writable()
                else:
                    if left:  # a command that reads as fast as we write leaves the loop no turn else
                        await asyncio.sleep(0)

    async def _stdin_writable(self) -> None:
        self._writable = self._loop.create_future()
        self._loop.add_writer(self._ends.stdin, self._stdin_is_news)
        try:
            await self._writable
        finally:
            self._writable = None
            if self._ends.stdin >= 0:  # else it was taken out before it was closed, and its number may be another's by now
                self._loop.remove_writer(self._ends.stdin)

    def _stdin_is_news(self) -> None:
        """Writable again, or closed: who waits for that looks again."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    async def close_stdin(self) -> None:
        if self._ends.stdin >= 0:
            self._loop.remove_writer(self._ends.stdin)
        self._ends.end_stdin(self._client)
        self._stdin_is_news()

    async def resize(self, rows: int, columns: int) -> None:
        size = TerminalSize(rows, columns)
        if self._exchange.spec.terminal is None:
            raise UnsupportedError("resize: this command has no terminal", option="resize")
        if not self._exchange.exited:
            self._client.resize(self._ends.id, size.rows, size.columns)

    async def detach(self) -> None:
        if not self._exchange.spec.background:
            await super().detach()
        if not self._ended.done():
            self._exchange.let_go()
            self._finish()
            self._news.set()
