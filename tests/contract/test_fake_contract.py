"""`FakeSandbox` keeps the file promises, and answers as it was told."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from isandbox import ExecResult, ExecTimeoutError, SandboxClosedError
from isandbox.testing import FakeSandbox
from isandbox.testing.contract.files import FilePromises
from isandbox.testing.contract.transfers import TransferPromises
from isandbox.testing.fake import UnscriptedCommandError


class TestFakeFiles(FilePromises):
    @classmethod
    def create(cls, **options: Any) -> Any:
        return _fake(**options)


class TestFakeTransfers(TransferPromises):
    @classmethod
    def create(cls, **options: Any) -> Any:
        return _fake(**options)


@asynccontextmanager
async def _fake(**options: Any) -> Any:
    async with FakeSandbox(**options) as sandbox:
        yield sandbox


async def test_scripted_answers() -> None:
    """A command gets the newest answer scripted for it: a result, a text, bytes, or a function of the spec."""
    fake = FakeSandbox({"a.txt": "1"}).on(["git", "status"], "clean\n").on("make", ExecResult(2, stderr_bytes=b"no rule"))
    fake.on(["echo"], lambda spec: ExecResult(0, stdout_bytes=spec.stdin if isinstance(spec.stdin, bytes) else b""))
    assert (await fake.exec(["git", "status"])).stdout == "clean\n"
    assert (await fake.exec("make")).exit_code == 2
    assert (await fake.exec(["echo"], input="x")).stdout == "x"
    assert await fake.files.read_text("a.txt") == "1"
    assert [spec.argv or spec.script for spec in fake.calls] == [("git", "status"), "make", ("echo",)]


async def test_an_unscripted_command_fails_the_test() -> None:
    """A command without an answer is an AssertionError that names it, unless there is an answer for the rest."""
    fake = FakeSandbox()
    with pytest.raises(UnscriptedCommandError, match="rm"):
        await fake.exec(["rm", "-rf", "/"])
    assert (await fake.otherwise("ok").exec("anything")).stdout == "ok"


async def test_time_outs_cancellation_and_close() -> None:
    """A delay past the time-out is a time-out; a cancelled call is cancelled; a closed fake says so."""
    fake = FakeSandbox().on("slow", "late", delay=60)
    with pytest.raises(ExecTimeoutError):
        await fake.exec("slow", timeout=0.05, check=True)
    task = asyncio.create_task(fake.exec("slow"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    task = asyncio.create_task(fake.exec("slow"))
    await asyncio.sleep(0.05)
    await fake.close()
    with pytest.raises(SandboxClosedError):
        await task
    with pytest.raises(SandboxClosedError):
        await fake.exec("slow")
