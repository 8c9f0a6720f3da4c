"""Handles on running commands."""

from __future__ import annotations

import asyncio
import pickle
import signal

import pytest

from isandbox import ConfigurationError, ISandbox, UnsupportedError
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

    async def test_a_signal_reaches_the_commands_children(self, sandbox: ISandbox) -> None:
        """A signal goes to the whole process group: the child that the shell waits for has it too."""
        child = "trap 'echo child; exit' USR1; echo ready; while :; do sleep 0.05; done"
        async with await sandbox.start(f'trap : USR1; sh -c "{child}"; echo parent') as process:
            assert (await anext(process.__aiter__()))[1] == b"ready\n"
            await process.signal(signal.SIGUSR1)
            assert (await process.wait()).stdout == "ready\nchild\nparent\n"

    async def test_impossible_signals_are_refused(self, sandbox: ISandbox) -> None:
        """A number that is no signal is ConfigurationError, and the command goes on."""
        async with await sandbox.start("read x; exit 4") as process:
            for number in (0, -1, 65, 1 << 40, True, "9", 9.0):
                with pytest.raises(ConfigurationError, match="signal"):
                    await process.signal(number)  # type: ignore[arg-type]
            await process.close_stdin()
            assert (await process.wait()).exit_code == 4

    async def test_there_is_no_terminal_to_resize(self, sandbox: ISandbox) -> None:
        """Resize of a command without a terminal is UnsupportedError that names it; the command's stdin is no terminal."""
        async with await sandbox.start("test -t 0 || echo none; read x") as process:
            with pytest.raises(UnsupportedError) as caught:
                await process.resize(24, 80)
            assert caught.value.option == "resize"
            await process.close_stdin()
            assert (await process.wait()).stdout == "none\n"

    async def test_a_started_command_can_have_a_time_out(self, sandbox: ISandbox) -> None:
        """timeout= of start ends the command with fault timeout and the output so far, also while it is iterated."""
        seen = b""
        async with await sandbox.start("echo so far; sleep 60", timeout=1) as process:
            async for _, chunk in process:
                seen += chunk
            result = await process.wait()
        assert (result.fault, result.stdout_bytes, seen) == ("timeout", b"so far\n", b"so far\n")
