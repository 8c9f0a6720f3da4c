"""Cancelling what is awaited, at any moment of it."""

from __future__ import annotations

import asyncio
from typing import Any

import psutil
import pytest

from isandbox import Event, ISandbox, SandboxClosedError
from isandbox.testing.contract.base import Contract, marker, processes

# Of what is cancelled at any moment: it had a result by then, or has none.
ENDS: tuple[type[BaseException] | None, ...] = (None, asyncio.CancelledError)


class CancellationPromises(Contract):
    """Cancelling verbs, creation and closing; no command is needed."""

    async def test_a_cancelled_verb_leaves_the_sandbox(self, sandbox: ISandbox) -> None:
        """A file verb that is cancelled at any moment raises CancelledError or has its result; the next one is as ever."""
        for turns in (0, 1, 2, 5):
            task = asyncio.ensure_future(sandbox.files.write("cancelled", b"x" * (4 << 20)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            assert await _outcome(task) in ENDS
            await sandbox.files.write("after", str(turns))
            assert await sandbox.files.read_text("after") == str(turns)

    async def test_a_cancelled_creation_leaves_nothing(self) -> None:
        """A creation that is cancelled at any moment leaves no process, and each sandbox that was made after all is closed."""
        before = {child.pid for child in psutil.Process().children(recursive=True)}
        events: list[Event] = []

        async def make() -> None:
            await (await self.create(on_event=events.append)).close()

        for wait in (0.0, 0.001, 0.005, 0.02):
            task = asyncio.ensure_future(make())
            await asyncio.sleep(wait)
            task.cancel()
            assert await _outcome(task) in ENDS
        for _ in range(200):  # a thread that closes one cannot be cancelled, and goes on for a moment
            kinds = [event.kind for event in events]
            if kinds.count("created") == kinds.count("closed"):
                break
            await asyncio.sleep(0.05)
        assert kinds.count("created") == kinds.count("closed")
        left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
        assert [child for child in left if child.is_running() and child.status() != psutil.STATUS_ZOMBIE] == []

    async def test_a_cancelled_close_closes(self) -> None:
        """Close that is cancelled has closed all the same, or a second one does."""
        for turns in (0, 1, 2):
            sandbox = await self.create()
            task = asyncio.ensure_future(sandbox.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            assert await _outcome(task) in ENDS
            await sandbox.close()
            with pytest.raises(SandboxClosedError):
                await sandbox.files.read_bytes("x")


class CancellationCommandPromises(Contract):
    """Cancelling commands."""

    async def test_cancelling_ends_the_command(self, sandbox: ISandbox) -> None:
        """Cancelling the awaiting task ends the command's processes, then raises CancelledError."""
        nap = marker()
        task = asyncio.create_task(sandbox.exec(f"setsid sleep {nap} & sleep {nap}"))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await processes(sandbox, nap) == []

    async def test_cancelling_a_wait_leaves_the_command(self, sandbox: ISandbox) -> None:
        """A cancelled wait does not end the command; a later wait gets its result."""
        process = await sandbox.start("sleep 0.5; echo done")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.1)
        assert (await process.wait()).stdout == "done\n"

    async def test_cancelling_twice_is_no_more_than_once(self, sandbox: ISandbox) -> None:
        """A second cancellation while the first one ends the command raises at once; the processes end, the sandbox goes on."""
        nap = marker()
        task = asyncio.create_task(sandbox.exec(f"setsid sleep {nap} & sleep {nap}"))
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(200):
            if not (left := await processes(sandbox, nap)):
                break
            await asyncio.sleep(0.05)
        assert left == []

    async def test_cancelling_one_leaves_the_others(self, sandbox: ISandbox) -> None:
        """Cancelling one of several commands ends that one; the others have their results."""
        tasks = [asyncio.create_task(sandbox.exec(f"sleep 0.6; echo {n}")) for n in range(5)]
        await asyncio.sleep(0.2)
        tasks[2].cancel()
        ends = [await _outcome(task) for task in tasks]
        assert [end is asyncio.CancelledError for end in ends] == [False, False, True, False, False]
        assert [task.result().stdout for n, task in enumerate(tasks) if n != 2] == ["0\n", "1\n", "3\n", "4\n"]

    async def test_cancelling_reaches_a_callback(self, sandbox: ISandbox) -> None:
        """A call that is cancelled while an async callback waits cancels the callback and ends the command."""
        nap = marker()
        reached, undone = asyncio.Event(), asyncio.Event()

        async def forever(_: str) -> None:
            reached.set()
            try:
                await asyncio.sleep(3600)
            finally:
                undone.set()

        task = asyncio.create_task(sandbox.exec(f"echo x; sleep {nap}", on_stdout=forever))
        await asyncio.wait_for(reached.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert undone.is_set()
        assert await processes(sandbox, nap) == []

    async def test_a_cancelled_start_leaves_no_command(self, sandbox: ISandbox) -> None:
        """A start that is cancelled before its handle is there leaves no process without an owner."""
        nap = marker()
        for turns in range(4):
            task = asyncio.ensure_future(sandbox.start(f"sleep {nap}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            if await _outcome(task) is None:
                await task.result().kill()
        for _ in range(200):
            if not (left := await processes(sandbox, nap)):
                break
            await asyncio.sleep(0.05)
        assert left == []


async def _outcome(task: asyncio.Future[Any]) -> type[BaseException] | None:
    """What the task raised; ``None`` for a result."""
    await asyncio.wait([task])
    if task.cancelled():
        return asyncio.CancelledError
    error = task.exception()
    return None if error is None else type(error)
