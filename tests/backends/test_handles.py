"""Handles on running commands, used in awkward ways: given up, shared, cancelled, interrupted."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import tempfile
import threading
import time
import warnings
from typing import Any

import psutil
import pytest

from isandbox import SandboxClosedError, create_sandbox, sync
from isandbox_backends._shared import aio, blocking
from isandbox_backends._shared.scratch import remove_tree

pytestmark = [pytest.mark.native, pytest.mark.parametrize("backend", ["seccomp", "local"])]


def test_an_iteration_given_up_while_another_waits(backend: str) -> None:
    """Leaving the loop over a command's output with the buffer full does not leave those who wait for its end hanging."""

    async def main() -> None:
        async with create_sandbox(backend) as sandbox:
            process = await sandbox.start(["head", "-c", "8000000", "/dev/zero"])
            waiter = asyncio.create_task(process.wait())
            async for _ in process:
                await asyncio.sleep(0.5)  # the buffer fills, reading stops
                break
            result = await asyncio.wait_for(process.wait(), 20)
            assert (await waiter) is not None
            assert result.exit_code == 0

    asyncio.run(main())


def test_two_writers_and_a_close_of_stdin(backend: str) -> None:
    """Two tasks that write to a full pipe take turns; closing stdin ends both with BrokenPipeError."""

    async def main() -> None:
        async with create_sandbox(backend) as sandbox:
            process = await sandbox.start(["sleep", "100"])
            writers = [asyncio.create_task(process.write_stdin(b"x" * 3_000_000)) for _ in range(2)]
            await asyncio.sleep(0.2)
            await process.close_stdin()
            done, _ = await asyncio.wait(writers, timeout=20)
            assert len(done) == 2
            assert all(isinstance(task.exception(), BrokenPipeError) for task in done)
            await process.kill()

        async with create_sandbox(backend) as sandbox:
            process = await sandbox.start("sleep 0.3; wc -c")
            await asyncio.wait_for(asyncio.gather(*(process.write_stdin(b"x" * 1_000_000) for _ in range(2))), 20)
            await process.close_stdin()
            assert (await process.wait()).stdout.strip() == "2000000"

    asyncio.run(main())


def test_a_blocked_writer_does_not_hold_up_the_end(backend: str) -> None:
    """A thread that writes to a pipe which a background child holds open: wait returns all the same."""
    with sync.create_sandbox(backend) as sandbox:
        process = sandbox.start("sleep 60 <&0 >/dev/null 2>&1 & sleep 0.2")
        failed: list[BaseException] = []

        def write() -> None:
            try:
                process.write_stdin(b"x" * 3_000_000)
            except BrokenPipeError as error:
                failed.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        began = time.monotonic()
        process.wait()
        assert time.monotonic() - began < 20
        writer.join(20)
        assert failed


def test_a_start_that_is_cancelled_ends_the_command(backend: str, nap: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled, or Ctrl-C, before the handle is there: the command ends."""

    async def never(_: object) -> None:
        await asyncio.Event().wait()

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(aio.AsyncProcess, "await_started", never)
    monkeypatch.setattr(blocking.BlockingProcess, "await_started", interrupted)

    async def main() -> None:
        async with create_sandbox(backend) as sandbox:
            task = asyncio.create_task(sandbox.start(nap.argv))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert nap.soon(0)

    asyncio.run(main())
    with sync.create_sandbox(backend) as sandbox:
        with pytest.raises(KeyboardInterrupt):
            sandbox.start(nap.argv)
        assert nap.soon(0)


def test_an_interrupt_right_after_the_start(backend: str, nap: Any) -> None:
    """Ctrl-C in the event of a command's start: the command ends, its pipes are closed."""

    def on_event(event: object) -> None:
        if getattr(event, "kind", "") == "exec_started":
            raise KeyboardInterrupt

    with sync.create_sandbox(backend, on_event=on_event) as sandbox:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(KeyboardInterrupt):
            sandbox.exec(nap.argv)
        assert nap.soon(0)
        assert len(os.listdir("/proc/self/fd")) == before


def test_cancelled_twice(backend: str, nap: Any) -> None:
    """A second cancellation while the command is being ended: the task ends, the command too, the sandbox lives on."""

    async def main() -> None:
        async with create_sandbox(backend) as sandbox:
            task = asyncio.create_task(sandbox.exec(nap.argv))
            await asyncio.sleep(0.2)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(nap.soon, 0)
            assert (await sandbox.exec(["true"])).ok

    asyncio.run(main())


def test_a_loop_that_ends_with_a_running_command(backend: str, nap: Any) -> None:
    """Dropped with its loop, sandbox and command: a warning, and neither process, zombie nor descriptor is left. Files stay."""
    places = set(os.listdir(tempfile.gettempdir()))
    asyncio.run(asyncio.sleep(0))
    gc.collect()
    before, children = set(os.listdir("/proc/self/fd")), {c.pid for c in psutil.Process().children()}

    async def main() -> None:
        sandbox = await create_sandbox(backend)
        await sandbox.start(nap.argv)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert any("never closed" in str(warning.message) for warning in caught)
    assert nap.soon(0)
    assert set(os.listdir("/proc/self/fd")) == before
    assert {c.pid for c in psutil.Process().children()} == children
    for place in set(os.listdir(tempfile.gettempdir())) - places:
        remove_tree(os.path.join(tempfile.gettempdir(), place))


def test_a_fork_while_another_thread_waits(backend: str) -> None:
    """A handle that a thread of the parent was busy with at the fork raises SandboxClosedError in the child, and never hangs."""
    with sync.create_sandbox(backend) as sandbox:
        process = sandbox.start(["sleep", "100"])
        waiter = threading.Thread(target=lambda: process.wait().fault)
        waiter.start()
        time.sleep(0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of forks with threads
            child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                process.wait()
            except SandboxClosedError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        process.kill()
        waiter.join(20)


def test_kill_and_close_from_other_threads(backend: str) -> None:
    """kill while another thread iterates ends the iteration; close while two threads wait raises the one error in both."""
    with sync.create_sandbox(backend) as sandbox:
        process = sandbox.start(["yes"])
        iterating = threading.Thread(target=lambda: [None for _ in process])
        iterating.start()
        time.sleep(0.1)
        process.kill()
        iterating.join(20)
        assert not iterating.is_alive()
        assert process.wait().fault == "cancelled"

        sleeper = sandbox.start(["sleep", "100"])
        errors: list[type[BaseException]] = []

        def wait() -> None:
            try:
                sleeper.wait()
            except Exception as error:
                errors.append(type(error))

        waiters = [threading.Thread(target=wait) for _ in range(2)]
        for thread in waiters:
            thread.start()
        time.sleep(0.1)
        sandbox.close()
        for thread in waiters:
            thread.join(20)
        assert errors == [SandboxClosedError] * 2
