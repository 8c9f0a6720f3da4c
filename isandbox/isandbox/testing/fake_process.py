"""The scripted command of a `FakeSandbox`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from isandbox.command import ProcessSpec, check_signal
from isandbox.errors import UnsupportedError
from isandbox.process import IProcess
from isandbox.records import ExecResult, Stream

if TYPE_CHECKING:
    from isandbox.testing.fake import FakeSandbox

Answer = ExecResult | str | bytes | Callable[[ProcessSpec], ExecResult]


def _nothing() -> None:
    """Nobody is told of the end."""


class FakeProcess(IProcess):
    """Waits its delay out, then is what it was scripted to be."""

    def __init__(
        self, spec: ProcessSpec, answer: Answer, delay: float, sandbox: FakeSandbox, on_end: Callable[[], None] = _nothing
    ) -> None:
        self._spec, self._answer, self._delay, self._sandbox, self._on_end = spec, answer, delay, sandbox, on_end
        self._began = time.monotonic()
        self._killed = asyncio.Event()
        self._result: ExecResult | None = None
        self.stdin = bytearray(spec.stdin if isinstance(spec.stdin, bytes) else b"")
        self._stdin_open = spec.stdin == "pipe"

    @property
    def pid(self) -> int | None:
        return 1

    async def wait(self) -> ExecResult:
        if self._result is None:
            result = await self._run()
            if self._result is None:  # nobody else who waits was first
                self._result = result
                self._on_end()
        return self._result

    async def _run(self) -> ExecResult:
        timeout = self._spec.timeout
        end = self._delay if timeout is None else min(self._delay, timeout)
        left = end - (time.monotonic() - self._began)
        if left > 0:
            waits = [asyncio.ensure_future(self._sandbox.over()), asyncio.ensure_future(self._killed.wait())]
            try:
                await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        self._sandbox.check_open()
        if self._killed.is_set():
            return ExecResult(137, signal=9, fault="cancelled")
        if timeout is not None and self._delay > timeout:
            return ExecResult(137, signal=9, fault="timeout", duration=timeout)
        return _result(self._answer, self._spec)

    async def kill(self) -> None:
        self._killed.set()

    async def signal(self, number: int) -> None:
        check_signal(number)
        if self._result is None:
            self._answer = ExecResult(128 + number, signal=number)
            self._delay = 0.0

    async def write_stdin(self, data: bytes) -> None:
        if not self._stdin_open:
            raise BrokenPipeError("stdin is closed")
        self.stdin += data

    async def close_stdin(self) -> None:
        self._stdin_open = False

    async def resize(self, rows: int, columns: int) -> None:
        raise UnsupportedError("resize: this command has no terminal", option="resize", backend="fake")

    async def __aiter__(self) -> AsyncIterator[tuple[Stream, bytes]]:
        result = await self.wait()
        if result.stdout_bytes:
            yield "stdout", result.stdout_bytes
        if result.stderr_bytes:
            yield "stderr", result.stderr_bytes


def _result(answer: Answer, spec: ProcessSpec) -> ExecResult:
    if callable(answer):
        answer = answer(spec)
    if isinstance(answer, str):
        answer = answer.encode()
    if isinstance(answer, bytes):
        answer = ExecResult(0, stdout_bytes=answer)
    if spec.stderr == "merge":
        return replace(answer, stdout_bytes=answer.stdout_bytes + answer.stderr_bytes, stderr_bytes=b"")
    return answer
