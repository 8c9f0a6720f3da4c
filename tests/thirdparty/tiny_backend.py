"""A backend as somebody else would write it: plain asyncio subprocesses, files in memory, no blocking driver."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from isandbox import Backend, Capabilities, CreateRequest, ExecResult, IProcess, ISandbox, ProcessSpec
from isandbox.policy import KERNEL
from isandbox.testing import FakeSandbox

ENDED: list[int] = []


class TinyProcess(IProcess):
    def __init__(self, process: asyncio.subprocess.Process, spec: ProcessSpec) -> None:
        self._process, self._spec = process, spec
        self._out, self._task = b"", asyncio.create_task(self._run())

    async def _run(self) -> ExecResult:
        given = self._spec.stdin if isinstance(self._spec.stdin, bytes) else b""
        self._out += (await self._process.communicate(given))[0]
        code = self._process.returncode or 0
        return ExecResult(128 - code if code < 0 else code, signal=-code if code < 0 else None, stdout_bytes=self._out)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def wait(self) -> ExecResult:
        return await asyncio.shield(self._task)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await asyncio.shield(self._task)
            ENDED.append(self._process.pid)

    async def signal(self, number: int) -> None:
        self._process.send_signal(signal.Signals(number))

    async def write_stdin(self, data: bytes) -> None:
        raise BrokenPipeError("stdin is closed")

    async def close_stdin(self) -> None:
        return None

    async def resize(self, rows: int, columns: int) -> None:
        raise NotImplementedError

    async def __aiter__(self) -> AsyncIterator[Any]:
        for line in (await self.wait()).stdout_bytes.splitlines(keepends=True):
            yield "stdout", line


CAPABILITIES = Capabilities("none", policies={"workspace.rw": KERNEL})


class TinySandbox(FakeSandbox):
    backend = "tiny"
    capabilities = CAPABILITIES

    async def spawn(self, spec: ProcessSpec) -> IProcess:
        self.check_open()
        argv = spec.argv if spec.script is None else ("/bin/sh", "-c", spec.script)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, env={"PATH": "/usr/bin:/bin", **spec.env}
        )
        return TinyProcess(process, spec)


@dataclass(frozen=True, slots=True)
class TinyOptions:
    name: str | None = None


class TinyBackend(Backend):
    name = "tiny"
    options = TinyOptions

    def unavailable(self) -> str | None:
        return None

    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def create(self, request: CreateRequest) -> ISandbox:
        return TinySandbox(name=request.options.name, request=request)
