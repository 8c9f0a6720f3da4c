"""Blocking driver: the caller's own thread polls the command's pipes. No event loop, no thread of ours."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from isandbox.command import check_signal
from isandbox.errors import UnsupportedError
from isandbox.records import STREAMS, Offsets, TerminalSize
from isandbox.sync._blocking import refuse_in_loop
from isandbox.sync.process import IProcess
from isandbox_backends._shared.drain import drain
from isandbox_backends._shared.endpoints import OutputReader
from isandbox_backends._shared.host_process import remember

if TYPE_CHECKING:
    from collections.abc import Callable

    from isandbox.records import ExecResult, Stream
    from isandbox_backends._shared.endpoints import Endpoints
    from isandbox_backends._shared.exchange import Exchange
    from isandbox_backends._shared.link import HelperLink

# Milliseconds. A Ctrl-C between Python's own look for signals and the system call would else wait for the next output.
_LOOK = 500


class BlockingProcess(IProcess):
    """A command of a native sandbox. Nothing is read before somebody waits or iterates: the pipe is the back-pressure."""

    def __init__(self, client: HelperLink, ends: Endpoints, exchange: Exchange, on_end: Callable[[], None]) -> None:
        self._client, self._ends, self._exchange, self._on_end = client, ends, exchange, on_end
        self._pump_lock = threading.RLock()
        self._stdin_lock = threading.Lock()
        self._stdin_turn = threading.Lock()
        self._chunks: deque[tuple[Stream, bytes]] = deque()
        self._dropped: dict[Stream, int] = dict.fromkeys(STREAMS, 0)
        self._reader = OutputReader()
        self._reports: list[bytes] = []
        self._reports_taken = 0
        self._keeping = False
        self._kill_sent = False
        self._over = False
        remember(self)

    @property
    def pid(self) -> int | None:
        return self._exchange.pid

    @property
    def id(self) -> int | None:
        return self._exchange.serial

    @property
    def offsets(self) -> Offsets:
        return self._exchange.offsets(self._dropped, list(self._chunks))

    def await_started(self) -> None:
        """Until the pid is known or the start has failed."""
        self._exchange.wants_start = True
        with self._pump_lock:
            while self._exchange.pid is None and not self._exchange.exited and not self._exchange.finished:
                self._pump(outputs=False)

    def wait(self) -> ExecResult:
        refuse_in_loop()
        self.run_to_end()
        return self._exchange.result(closed=self._client.closed)

    def run_to_end(self) -> None:
        with self._pump_lock:
            while not self._exchange.finished:
                self._pump()
            self._finish()

    def __iter__(self) -> Iterator[tuple[Stream, bytes]]:
        refuse_in_loop()
        self._keeping = True
        try:
            while True:
                with self._pump_lock:
                    while not self._chunks and not self._exchange.finished:
                        self._pump()
                    if not self._chunks:
                        self._finish()
                        return
                    item = self._chunks.popleft()
                yield item
        finally:
            self._keeping = False
            for stream, chunk in list(self._chunks):
                self._dropped[stream] += len(chunk)
            self._chunks.clear()

    def _pump(self, *, outputs: bool = True) -> None:
        """One round: wait for something to happen, take it in."""
        ends, exchange = self._ends, self._exchange
        if self._client.closed:  # by close, or because this is a forked child, whose parent reads these pipes
            exchange.give_up()
            return
        self._hand_on_reports(time.monotonic())  # of a round that a Ctrl-C broke off
        exchange.resume(time.monotonic())
        events = self._wait(outputs=outputs)
        if self._client.closed and not exchange.exited:  # meanwhile: what is reported now is the end that closing gave it
            exchange.give_up()
            return
        now = time.monotonic()
        for fd, _ in events:
            if fd == ends.status:
                self._take_status(now)
            elif fd in ends.outputs:
                self._take_output(fd, now)
            elif fd == ends.stdin:
                with self._stdin_lock:
                    if ends.stdin >= 0:
                        ends.feed_stdin()
        exchange.advance(now)
        exchange.pause(now)
        if exchange.over_output and not self._kill_sent:
            self._send_kill("output")

    def _wait(self, *, outputs: bool) -> list[tuple[int, int]]:
        ends, due = self._ends, self._exchange.due()
        poll = select.poll()
        if ends.status >= 0:
            poll.register(ends.status, select.POLLIN)
        for fd in ends.outputs if outputs else ():
            poll.register(fd, select.POLLIN)
        if ends.pending and ends.stdin >= 0:
            poll.register(ends.stdin, select.POLLOUT)
        return poll.poll(_LOOK if due is None else min(_LOOK, max(0.0, due - time.monotonic()) * 1000 + 1))

    def _take_status(self, now: float) -> None:
        # One step for the interpreter: a Ctrl-C comes before the reading or when the report is kept, and not between. A report
        # that is lost would mean that the sandbox is.
        self._reports.extend(map(os.read, (self._ends.status,), (4096,)))
        self._hand_on_reports(now)

    def _hand_on_reports(self, now: float) -> None:
        if self._reports_taken == len(self._reports):
            return
        ended = not self._reports[-1]
        if ended:
            self._ends.close_status()
        self._exchange.reported(b"".join(self._reports), now, ended=ended)
        if self._exchange.distrusted:
            self._reports_taken = 0
            self._reports.clear()
        else:
            self._reports_taken = len(self._reports)

    def _take_output(self, fd: int, now: float) -> None:
        data = self._reader.read(self._ends, fd)
        if data is None:
            return
        stream = self._ends.outputs[fd]
        if not data:
            self._exchange.output_ended(stream)  # first: after a Ctrl-C between the two it is only said again
            self._ends.close_output(fd)
            return
        self._exchange.output(stream, data, now)
        if self._keeping:  # also when another thread pumps, in kill or wait
            self._chunks.append((stream, bytes(data)))

    def _finish(self) -> None:
        """Close what is ours; what a background child still writes goes to the drain. Once."""
        if self._over:
            return
        self._over = True
        self._ends.close_status()
        with self._stdin_lock:
            self._ends.close_stdin()
        self._ends.give_rest_to(drain)
        if self._ends.relayed:
            self._ends.close()
        if self._exchange.lost is not None and not self._client.closed:
            self._client.destroy()
        self._on_end()

    def _send_kill(self, fault: str) -> None:
        self._kill_sent = True
        self._client.kill(self._ends.id, fault)
        self._exchange.expect_end(time.monotonic())

    def kill(self) -> None:
        if self._exchange.exited or self._exchange.finished:
            return
        self._send_kill("cancelled")
        self.run_to_end()

    def signal(self, number: int) -> None:
        checked = check_signal(number)
        if not self._exchange.exited:
            self._client.signal(self._ends.id, checked)

    def write_stdin(self, data: bytes) -> None:
        refuse_in_loop()
        with self._stdin_turn:  # two threads that write take turns: each one's data stays in one piece
            self._write(memoryview(data))

    def _write(self, left: memoryview) -> None:
        while left:
            with self._stdin_lock:
                fd = self._ends.stdin
                if fd < 0:
                    raise BrokenPipeError("stdin is closed")
                with contextlib.suppress(BlockingIOError):
                    left = left[os.write(fd, left) :]
                    continue
            # Without the lock, which whoever closes stdin has to get; so not for long, as the number may mean another file.
            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            poll.poll(50)

    def close_stdin(self) -> None:
        with self._stdin_lock:
            self._ends.end_stdin(self._client)

    def resize(self, rows: int, columns: int) -> None:
        size = TerminalSize(rows, columns)
        if self._exchange.spec.terminal is None:
            raise UnsupportedError("resize: this command has no terminal", option="resize")
        if not self._exchange.exited:
            self._client.resize(self._ends.id, size.rows, size.columns)

    def detach(self) -> None:
        if not self._exchange.spec.background:
            super().detach()
        if self._exchange.finished:
            return
        self._exchange.let_go()  # first: whoever pumps stops at its next look
        with self._pump_lock:
            self._finish()

    def abandon(self) -> None:
        """In a forked child: another thread of the parent may have held the locks."""
        self._pump_lock, self._stdin_lock, self._stdin_turn = threading.RLock(), threading.Lock(), threading.Lock()
