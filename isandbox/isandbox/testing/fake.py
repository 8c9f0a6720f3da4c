"""`FakeSandbox`: no sandbox at all, for people who test the agent that uses one.

Files are in memory, commands are scripted answers. It keeps the promises about files, errors and closing; about running
anything it promises nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

from isandbox.command import Command, ProcessSpec, check_command
from isandbox.errors import ConfigurationError, SandboxClosedError, UnsupportedError
from isandbox.events import Event, EventKind, EventSink
from isandbox.policy import Capabilities, Quotas
from isandbox.process import IProcess
from isandbox.records import ExecResult, FileInfo, Metrics, SandboxInfo, Stream
from isandbox.sandbox import ISandbox
from isandbox.testing.memory_files import MemoryFiles

Answer = ExecResult | str | bytes | Callable[[ProcessSpec], ExecResult]
WORKSPACE = "/workspace"
_CHUNK = 1 << 16


class UnscriptedCommandError(AssertionError):
    """The agent ran a command that the test has no answer for."""


class FakeSandbox(ISandbox):
    """``files`` fills the workspace. Script answers with `on`; what was run is in ``calls``, as `ProcessSpec`.

    ``on_event`` sees transfers of files; the fake has no other events.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        name: str = "fake-0",
        on_event: EventSink | None = None,
    ) -> None:
        self._on_event = on_event
        self.calls: list[ProcessSpec] = []
        self._answers: list[tuple[tuple[str, ...] | str, Answer, float]] = []
        self._default: Answer | None = None
        self._closed = asyncio.Event()
        self._store = MemoryFiles(WORKSPACE)
        for path, data in (files or {}).items():
            self._store.write(path, data.encode() if isinstance(data, str) else data, None, append=False)
        self._info = SandboxInfo(
            id=name,
            backend="fake",
            isolation="none",
            workspace=WORKSPACE,
            created_at=datetime.now(UTC),
            capabilities=Capabilities(isolation="none", weaknesses=("runs nothing",)),
            quotas=Quotas(),
        )

    def on(self, command: Command, answer: Answer, *, delay: float = 0.0) -> FakeSandbox:
        """Answer this exact command: a result, a text or bytes for stdout, or a function of the `ProcessSpec`.

        ``delay`` seconds pass first; a time-out below it is a time-out, a cancellation in it is one. The newest answer for
        a command wins. Returns self.
        """
        argv, script = check_command(command)
        self._answers.append((argv if script is None else script, answer, delay))
        return self

    def otherwise(self, answer: Answer) -> FakeSandbox:
        """Answer every command that has no answer of its own; without this they raise `UnscriptedCommandError`."""
        self._default = answer
        return self

    @property
    def info(self) -> SandboxInfo:
        return self._info

    async def spawn(self, spec: ProcessSpec) -> IProcess:
        self._check_open()
        self.calls.append(spec)
        key = spec.argv if spec.script is None else spec.script
        for command, answer, delay in reversed(self._answers):
            if command == key:
                return FakeProcess(spec, answer, delay, self._closed)
        if self._default is None:
            raise UnscriptedCommandError(f"no answer is scripted for {key!r}")
        return FakeProcess(spec, self._default, 0.0, self._closed)

    async def stat(self, path: str, *, user: str | None = None) -> FileInfo:
        self._check(user)
        return self._store.stat(path)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> bytes:
        self._check(user)
        data = self._store.read(path)
        return data[offset:] if limit is None else data[offset : offset + limit]

    async def read_chunks(
        self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None
    ) -> AsyncIterator[bytes]:
        data = await self.read(path, offset=offset, limit=limit, user=user)
        for start in range(0, len(data), _CHUNK):
            self._check_open()
            yield data[start : start + _CHUNK]
            await asyncio.sleep(0)

    async def write(
        self,
        path: str,
        data: bytes | AsyncIterable[bytes],
        *,
        mode: int | None = None,
        append: bool = False,
        user: str | None = None,
    ) -> None:
        self._check(user)
        if not isinstance(data, AsyncIterable):
            self._store.write(path, _bytes(data), mode, append=append)
            return
        self._store.write(path, b"", mode, append=append)
        async for chunk in data:
            self._check_open()
            self._store.write(path, _bytes(chunk), mode, append=True)

    async def list_dir(self, path: str, *, user: str | None = None) -> list[FileInfo]:
        self._check(user)
        return self._store.list_dir(path)

    async def make_dir(self, path: str, *, parents: bool = False, mode: int | None = None, user: str | None = None) -> None:
        self._check(user)
        self._store.make_dir(path, parents=parents, mode=mode)

    async def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        self._check(user)
        self._store.remove(path, recursive=recursive)

    async def rename(self, path: str, target: str, *, user: str | None = None) -> None:
        self._check(user)
        self._store.rename(path, target)

    def notify(self, kind: EventKind, data: Mapping[str, str | float | bool | None]) -> None:
        if self._on_event is not None:
            self._on_event(Event(kind, self._info.id, time.time(), MappingProxyType(dict(data))))

    async def metrics(self) -> Metrics:
        self._check_open()
        return Metrics(processes=0, cpu_time=0.0, memory=0)

    async def renew(self, seconds: float) -> None:
        raise UnsupportedError("renew: a fake sandbox has no lifetime", option="renew", backend="fake")

    async def close(self) -> None:
        self._closed.set()

    def _check(self, user: str | None) -> None:
        self._check_open()
        if user is not None:
            raise UnsupportedError(f"user={user!r}: a fake sandbox has one user; leave it out", option="user", backend="fake")

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise SandboxClosedError(f"sandbox {self._info.id} is closed")


class FakeProcess(IProcess):
    """Waits its delay out, then is what it was scripted to be."""

    def __init__(self, spec: ProcessSpec, answer: Answer, delay: float, closed: asyncio.Event) -> None:
        self._spec, self._answer, self._delay, self._closed = spec, answer, delay, closed
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
            self._result = await self._run()
        return self._result

    async def _run(self) -> ExecResult:
        timeout = self._spec.timeout
        end = self._delay if timeout is None else min(self._delay, timeout)
        left = end - (time.monotonic() - self._began)
        if left > 0:
            waits = [asyncio.ensure_future(event.wait()) for event in (self._closed, self._killed)]
            try:
                await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        if self._closed.is_set():
            raise SandboxClosedError("the sandbox was closed while a command ran")
        if self._killed.is_set():
            return ExecResult(137, signal=9, fault="cancelled")
        if timeout is not None and self._delay > timeout:
            return ExecResult(137, signal=9, fault="timeout", duration=timeout)
        return _result(self._answer, self._spec)

    async def kill(self) -> None:
        self._killed.set()

    async def signal(self, number: int) -> None:
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


def _bytes(data: object) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ConfigurationError(f"write: data is bytes, not {type(data).__name__}; files.write takes texts")
    return bytes(data)


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
