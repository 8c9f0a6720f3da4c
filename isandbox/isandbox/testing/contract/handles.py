"""Handles on running commands."""

from __future__ import annotations

import asyncio
import pickle
import signal

import pytest

from isandbox import ISandbox
from isandbox.testing.contract.base import Contract, marker, processes


class HandlePromises(Contract):
    async def test_start_gives_a_live_handle(self, sandbox: ISandbox) -> None:
        """Start returns while the command runs; its pid is the one the command sees."""
        async with await sandbox.start("echo $$; sleep 60") as process:
            async for stream, chunk in process:
                assert stream == "stdout"
                assert int(chunk) == process.pid
                break

    async def test_a_conversation_over_stdin(self, sandbox: ISandbox) -> None:
        """What is written to stdin reaches the command as it is written; close_stdin is its end."""
        async with await sandbox.start("while read line; do echo got $line; done; echo end") as process:
            output = process.__aiter__()
            await process.write_stdin(b"one\n")
            assert (await anext(output)) == ("stdout", b"got one\n")
            await process.write_stdin(b"two\n")
            assert (await anext(output)) == ("stdout", b"got two\n")
            await process.close_stdin()
            await process.close_stdin()
            assert (await anext(output)) == ("stdout", b"end\n")
            assert (await process.wait()).ok
            with pytest.raises(BrokenPipeError):
                await process.write_stdin(b"late\n")

    async def test_iteration_sees_everything_in_order(self, sandbox: ISandbox) -> None:
        """Iterating yields every byte of each stream in order, then ends; wait then gives the result."""
        async with await sandbox.start("for i in 1 2 3; do echo $i; echo e$i >&2; done; exit 6") as process:
            seen = {"stdout": b"", "stderr": b""}
            async for stream, chunk in process:
                seen[stream] += chunk
            result = await process.wait()
        assert seen == {"stdout": b"1\n2\n3\n", "stderr": b"e1\ne2\ne3\n"}
        assert (result.exit_code, result.stdout_bytes) == (6, seen["stdout"])

    async def test_wait_is_the_same_every_time(self, sandbox: ISandbox) -> None:
        """Wait may be called again and by several tasks; each gets the same result."""
        process = await sandbox.start("sleep 0.2; echo x; exit 2")
        first, second = await asyncio.gather(process.wait(), process.wait())
        assert first == second == await process.wait()
        assert first.exit_code == 2

    async def test_cancelling_a_wait_leaves_the_command(self, sandbox: ISandbox) -> None:
        """A cancelled wait does not end the command; a later wait gets its result."""
        process = await sandbox.start("sleep 0.5; echo done")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.1)
        assert (await process.wait()).stdout == "done\n"

    async def test_a_signal_reaches_the_command(self, sandbox: ISandbox) -> None:
        """Signal delivers to the command, which may handle it; one that has ended is left alone."""
        async with await sandbox.start("trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.05; done") as process:
            output = process.__aiter__()
            assert (await anext(output))[1] == b"ready\n"
            await process.signal(signal.SIGUSR1)
            result = await process.wait()
            assert (result.exit_code, result.stdout, result.fault) == (9, "ready\ncaught\n", None)
            await process.signal(signal.SIGTERM)

    async def test_kill_ends_every_process(self, sandbox: ISandbox) -> None:
        """Kill ends the whole tree with fault cancelled, and killing again is nothing."""
        nap = marker()
        process = await sandbox.start(f"setsid sleep {nap} & (sleep {nap} &) ; sleep {nap}")
        await process.kill()
        result = await process.wait()
        assert (result.fault, result.signal) == ("cancelled", 9)
        await process.kill()
        assert await processes(sandbox, nap) == []

    async def test_leaving_the_context_ends_the_command(self, sandbox: ISandbox) -> None:
        """A handle used as a context manager does not leave its command behind."""
        nap = marker()
        async with await sandbox.start(f"sleep {nap}"):
            assert len(await processes(sandbox, nap)) >= 1
        assert await processes(sandbox, nap) == []

    async def test_a_program_that_does_not_start_has_a_handle(self, sandbox: ISandbox) -> None:
        """Start of a missing program gives a handle without a pid whose result is 127."""
        process = await sandbox.start(["no-such-program-at-all"])
        assert process.pid is None
        assert (await process.wait()).exit_code == 127

    async def test_handles_do_not_pickle_results_do(self, sandbox: ISandbox) -> None:
        """A sandbox and a process refuse to be pickled; a result survives it."""
        process = await sandbox.start("echo x")
        result = await process.wait()
        for handle in (sandbox, process):
            with pytest.raises(TypeError, match="live handle"):
                pickle.dumps(handle)
        assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301 - our own bytes
