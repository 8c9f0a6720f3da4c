"""Who ended a command, and what it left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from isandbox import ConfigurationError, Event, ExecOutputLimitError, ExecTimeoutError, ISandbox, Quotas, SandboxLostError
from isandbox.testing.contract.base import Contract, marker, processes


class FaultPromises(Contract):
    async def test_a_timeout_is_a_fault_with_the_output_so_far(self, sandbox: ISandbox) -> None:
        """Past its time-out a command is ended; the result has the fault and what was written."""
        result = await sandbox.exec("echo start; echo err >&2; sleep 60; echo end", timeout=0.5)
        assert (result.fault, result.stdout, result.stderr, result.ok) == ("timeout", "start\n", "err\n", False)
        assert 0.4 < result.duration < 5

    async def test_a_timeout_reaches_every_process(self, sandbox: ISandbox) -> None:
        """A time-out ends what called setsid, forked twice, changed its group or went to the background."""
        nap = marker()
        script = (
            f"setsid sleep {nap} & (setsid sh -c 'sleep {nap} & sleep {nap}' &) ; "
            f"sh -c 'sh -c \"sleep {nap} & exec sleep {nap}\" & exit' ; sleep {nap}"
        )
        result = await sandbox.exec(script, timeout=0.5)
        assert result.fault == "timeout"
        assert await processes(sandbox, nap) == []

    async def test_a_timeout_does_not_wait_for_consent(self, sandbox: ISandbox) -> None:
        """A command that ignores every signal it can is ended all the same."""
        result = await sandbox.exec("trap '' TERM INT HUP QUIT; while :; do sleep 1; done", timeout=0.5)
        assert result.fault == "timeout"

    async def test_the_sandbox_survives_a_timeout(self, sandbox: ISandbox) -> None:
        """After a time-out the files, the other commands and the sandbox are as they were."""
        await sandbox.files.write("kept", "kept")
        other = asyncio.create_task(sandbox.exec("sleep 1; echo survived"))
        await asyncio.sleep(0.1)
        assert (await sandbox.exec("sleep 60", timeout=0.3)).fault == "timeout"
        assert (await other).stdout == "survived\n"
        assert await sandbox.files.read_text("kept") == "kept"

    async def test_a_stopped_job_stays_stopped(self, sandbox: ISandbox) -> None:
        """Ending other commands does not wake a process that was stopped on purpose, not even for a moment."""
        stop = "trap 'touch woken' CONT; kill -STOP $$; sleep 7322"
        async with await sandbox.start(
            f'sh -c "{stop.replace("$", chr(92) + "$")}" & '
            "until grep -q '^State:.T' /proc/$!/status; do sleep 0.02; done; echo $!; wait"
        ) as process:
            async for _, chunk in process:
                pid = chunk.decode().strip()
                break
            for _ in range(3):  # together, so that one is looked at while another is being ended
                ended = await asyncio.gather(*(sandbox.exec("sleep 60", timeout=0.2) for _ in range(8)))
                assert {result.fault for result in ended} == {"timeout"}
            assert (await sandbox.exec(f"grep -c '^State:.T' /proc/{pid}/status")).stdout == "1\n"
            assert not await sandbox.files.exists("woken")

    async def test_check_maps_a_timeout(self, sandbox: ISandbox) -> None:
        """With check=True a time-out is ExecTimeoutError, also a TimeoutError, with the output so far."""
        with pytest.raises(ExecTimeoutError) as caught:
            await sandbox.exec("echo so far; sleep 60", timeout=0.3, check=True)
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.result.stdout == "so far\n"

    async def test_a_fault_cannot_be_forged(self, sandbox: ISandbox) -> None:
        """A command that kills itself, exits 137 or prints what we would say has no fault."""
        for script in ("kill -9 $$", "exit 137", "exit 124", "echo fault=timeout >&2; exit 1"):
            assert (await sandbox.exec(script, timeout=30)).fault is None

    async def test_a_quick_death_is_not_a_timeout(self, sandbox: ISandbox) -> None:
        """A command that dies by a signal long before its time-out has no fault."""
        result = await sandbox.exec("kill -TERM $$", timeout=60)
        assert (result.exit_code, result.fault) == (143, None)

    async def test_too_much_output_is_a_fault(self) -> None:
        """Past Quotas.output the command is ended with fault output, and check maps it."""
        async with self.create(quotas=Quotas(output=100_000)) as sandbox:
            result = await sandbox.exec("yes", timeout=60)
            assert result.fault == "output"
            assert (await sandbox.exec("head -c 100000 /dev/zero")).fault is None
            with pytest.raises(ExecOutputLimitError):
                await sandbox.exec("yes >&2", timeout=60, check=True)

    async def test_a_lost_sandbox_is_an_error_not_a_result(self) -> None:
        """When the sandbox dies under a command the call raises SandboxLostError, and so does every later one."""
        async with self.create() as sandbox:
            task = asyncio.create_task(sandbox.exec("echo x; sleep 60"))
            await asyncio.sleep(0.3)
            await self.lose(sandbox)
            with pytest.raises(SandboxLostError):
                await task
            with pytest.raises(SandboxLostError):
                await sandbox.exec("true")

    async def test_cpu_time_and_memory_are_told(self, sandbox: ISandbox) -> None:
        """duration, cpu_time and max_rss are those of the command and its children."""
        result = await sandbox.exec("sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; sleep 0.2")
        assert result.duration >= 0.2
        assert 0.005 < result.cpu_time < 30
        assert 100_000 < result.max_rss < 1 << 30

    async def test_impossible_time_outs_are_refused(self, sandbox: ISandbox) -> None:
        """Zero, a negative, NaN, infinity, a boolean and a text are ConfigurationError; a very long one is fine."""
        impossible: tuple[Any, ...] = (0, 0.0, -1, float("nan"), float("inf"), True, "1")
        for value in impossible:
            with pytest.raises(ConfigurationError, match="timeout"):
                await sandbox.exec("true", timeout=value)
        for seconds in (1, 4_000_000, None):
            assert (await sandbox.exec("true", timeout=seconds)).ok

    async def test_the_same_text_twice_is_two_commands(self, sandbox: ISandbox) -> None:
        """Of two commands with one text the time-out of one ends that one, whatever the text holds."""
        script = f"echo 'a[b*\\'; sleep {marker()}; echo end"
        longer = asyncio.create_task(sandbox.exec(script.replace("sleep", "sleep 0.6; : "), timeout=60))
        same = await sandbox.start(script)
        assert (await sandbox.exec(script, timeout=0.3)).fault == "timeout"
        await same.signal(0x0F)
        result = await same.wait()
        assert (result.fault, result.signal) == (None, 15)
        assert (await longer).stdout.endswith("end\n")

    async def test_a_time_out_counts_while_nobody_reads(self, sandbox: ISandbox) -> None:
        """A command whose output nobody reads is ended all the same, by a clock that is not its reader's."""
        nap = marker()
        process = await sandbox.start(f"sleep {nap} & yes", timeout=0.3)
        for _ in range(200):
            if not await processes(sandbox, nap):
                break
            await asyncio.sleep(0.05)
        assert await processes(sandbox, nap) == []
        assert (await process.wait()).fault == "timeout"

    async def test_a_stopped_command_times_out(self, sandbox: ISandbox) -> None:
        """A command that has stopped itself is still running, and its time-out ends it."""
        result = await sandbox.exec("echo before; kill -STOP $$; echo after", timeout=0.4)
        assert (result.fault, result.stdout) == ("timeout", "before\n")

    async def test_a_lost_sandbox_fails_every_verb(self) -> None:
        """After a loss file verbs and metrics are SandboxLostError too, with outcome unknown, and closing is fine."""
        async with self.create() as sandbox:
            await self.lose(sandbox)
            with pytest.raises(SandboxLostError):
                await sandbox.files.read_bytes("x")
            for attempt in (sandbox.files.write("x", ""), sandbox.files.list(), sandbox.metrics()):
                with pytest.raises(SandboxLostError) as caught:
                    await attempt
                assert (caught.value.code, caught.value.outcome) == ("lost", "unknown")

    async def test_a_loss_is_told_once(self) -> None:
        """on_event hears of a loss once, however many calls it breaks, and of the close after it."""
        events: list[Event] = []
        async with self.create(on_event=events.append) as sandbox:
            running = [asyncio.create_task(sandbox.exec("sleep 60")) for _ in range(3)]
            await asyncio.sleep(0.3)
            await self.lose(sandbox)
            ends = await asyncio.gather(*running, return_exceptions=True)
        assert [type(end) for end in ends] == [SandboxLostError] * 3
        kinds = [event.kind for event in events]
        assert (kinds.count("lost"), kinds[-1]) == (1, "closed")

    async def test_a_loss_while_nothing_runs_is_told(self) -> None:
        """A sandbox that dies with nothing running is told of by the first call that finds out, a file verb too."""
        for verb in ("exec", "stat"):
            events: list[Event] = []
            async with self.create(on_event=events.append) as sandbox:
                await self.lose(sandbox)
                if verb == "stat":
                    await asyncio.sleep(0.2)  # by now nobody is there to send to; the other finds out from the answer
                with pytest.raises(SandboxLostError):
                    await getattr(sandbox, verb)(".")
            assert [event.kind for event in events if not event.kind.startswith("exec")] == ["created", "lost", "closed"]
