"""Kept commands: those that go on when their handle goes, and can be reached again."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from isandbox import ConfigurationError, Offsets, Quotas, SandboxClosedError, TerminalSize, UnsupportedError
from isandbox.testing.contract.base import Contract, host_command_lines, marker, processes, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from isandbox import IProcess, ISandbox, ProcessInfo

_WAIT = 60


def gate() -> tuple[str, str]:
    """A name that does not exist, and a piece of script that waits until it does."""
    name = f"gate-{secrets.token_hex(8)}"
    return name, f"while ! test -e {name}; do sleep 0.02; done"


async def listed(sandbox: ISandbox, process: IProcess) -> ProcessInfo:
    [info] = [info for info in await sandbox.processes() if info.id == process.id]
    return info


async def listed_as(sandbox: ISandbox, process: IProcess, condition: Callable[[ProcessInfo], bool]) -> ProcessInfo:
    """Look at the list until it says so of the command."""
    end = time.monotonic() + _WAIT
    while not condition(info := await listed(sandbox, process)):
        assert time.monotonic() < end, info
        await asyncio.sleep(0.02)
    return info


async def ended(process: IProcess) -> Any:
    return await asyncio.wait_for(process.wait(), _WAIT)


class ClaimPromises(Contract):
    async def test_what_the_record_does_not_claim_is_refused(self, sandbox: ISandbox) -> None:
        """Kept commands and terminals work where the verbs `attach` and `terminal` are claimed; elsewhere UnsupportedError names
        the option.
        """
        kept: dict[str, Any] = {"background": True}
        terminal: dict[str, Any] = {"terminal": TerminalSize()}
        for verb, options in (("attach", kept), ("terminal", terminal)):
            if verb in sandbox.info.capabilities.verbs:
                assert (await ended(await sandbox.start(["true"], **options))).ok
                continue
            with pytest.raises(UnsupportedError) as caught:
                await sandbox.start(["true"], **options)
            assert caught.value.option == next(iter(options))
        if "attach" not in sandbox.info.capabilities.verbs:
            for call in (sandbox.processes(), sandbox.attach(1)):
                with pytest.raises(UnsupportedError):
                    await call


class KeptCommandPromises(Contract):
    verbs: ClassVar[tuple[str, ...]] = ("attach",)

    async def test_a_kept_command_goes_on_without_its_handle(self, sandbox: ISandbox) -> None:
        """Leaving or letting go of the handle of a kept command leaves the command alone."""
        name, waits = gate()
        async with await sandbox.start(f"{waits}; echo through; exit 5", background=True) as process:
            assert process.id is not None
        await process.detach()
        with pytest.raises(SandboxClosedError):
            await process.wait()
        assert (await listed(sandbox, process)).running
        await sandbox.files.write(name, "")
        result = await ended(await sandbox.attach(process.id))
        assert (result.exit_code, result.stdout) == (5, "through\n")

    async def test_kept_commands_are_listed(self, sandbox: ISandbox) -> None:
        """The list tells of each kept command what it is, whether it runs, how it ended and how much it has written."""
        name, waits = gate()
        process = await sandbox.start(f"echo out; echo err >&2; {waits}; kill -9 $$", background=True)
        output = process.__aiter__()
        assert {await anext(output), await anext(output)} == {("stdout", b"out\n"), ("stderr", b"err\n")}
        info = await listed(sandbox, process)
        assert (info.pid, info.running, info.exit_code, info.terminal) == (process.pid, True, None, False)
        assert info.command.startswith("/bin/sh -c echo out;")
        assert (info.written, info.first) == (Offsets(4, 4), Offsets(0, 0))
        await sandbox.files.write(name, "")
        await ended(process)
        info = await listed(sandbox, process)
        assert (info.running, info.exit_code, info.signal, info.fault) == (False, 137, 9, None)

    async def test_attaching_gives_the_output_since_an_offset(self, sandbox: ISandbox) -> None:
        """Output begins at the beginning, at the offset asked for, or at its end when more was asked for than there is."""
        process = await sandbox.start("echo 0123456789; echo abc >&2", background=True)
        await ended(process)
        assert process.id is not None
        for since, stdout, stderr in (
            (None, "0123456789\n", "abc\n"),
            (Offsets(), "0123456789\n", "abc\n"),
            (Offsets(4, 2), "456789\n", "c\n"),
            (Offsets(11, 4), "", ""),
            (Offsets(1 << 40, 1 << 40), "", ""),
        ):
            handle = await sandbox.attach(process.id, since=since)
            result = await ended(handle)
            assert (result.stdout, result.stderr, result.truncated) == (stdout, stderr, False)
            assert handle.offsets == Offsets(11, 4)

    async def test_going_on_where_a_handle_was_left(self, sandbox: ISandbox) -> None:
        """The offsets of a handle that was let go in the middle of its output lead to the rest, nothing twice or missing."""
        process = await sandbox.start("seq 200000", background=True, max_output=4 << 20)  # all of it is kept
        seen = b""
        async for _, chunk in process:
            seen += chunk
            break
        offsets = process.offsets
        assert offsets == Offsets(len(seen), 0)
        await process.detach()
        assert process.id is not None
        handle = await sandbox.attach(process.id, since=offsets, max_output=4 << 20)
        rest = (await ended(handle)).stdout_bytes
        assert seen + rest == b"".join(b"%d\n" % number for number in range(1, 200_001))[: len(seen) + len(rest)]
        assert len(seen) + len(rest) == handle.offsets.stdout

    async def test_two_handles_at_once(self, sandbox: ISandbox) -> None:
        """Each handle on a running command sees all of its output and its end."""
        name, waits = gate()
        first = await sandbox.start(f"echo before; {waits}; seq 30000; exit 4", background=True)
        assert first.id is not None
        second = await sandbox.attach(first.id)
        waiting = asyncio.gather(ended(first), ended(second))
        await sandbox.files.write(name, "")
        for result in await waiting:
            assert (result.exit_code, result.stdout.split()) == (4, ["before", *map(str, range(1, 30_001))])

    async def test_an_attached_handle_signals_and_kills(self, sandbox: ISandbox) -> None:
        """Signal and kill work through an attached handle; the first handle sees what became of the command."""
        nap = marker()
        script = f"trap 'echo caught' USR1; echo ready; (setsid sleep {nap} &); while :; do sleep 0.05; done"
        first = await sandbox.start(script, background=True)
        assert (await anext(first.__aiter__()))[1] == b"ready\n"
        assert first.id is not None
        second = await sandbox.attach(first.id)
        output = second.__aiter__()
        assert (await anext(output))[1] == b"ready\n"
        await second.signal(signal.SIGUSR1)
        while (told := await anext(output))[0] == "stderr":  # of the shell, whose child has had the signal too
            continue
        assert told == ("stdout", b"caught\n")
        await second.kill()
        for handle in (first, second):
            result = await ended(handle)
            assert (result.fault, result.signal) == ("cancelled", 9)
        assert await processes(sandbox, nap) == []

    async def test_an_attached_handle_writes(self, sandbox: ISandbox) -> None:
        """Input reaches a kept command by any of its handles; letting go of one closes nothing, closing stdin does."""
        first = await sandbox.start("while read line; do echo got $line; done; echo end", background=True)
        output = first.__aiter__()
        await first.write_stdin(b"one\n")
        assert (await anext(output))[1] == b"got one\n"
        assert first.id is not None
        second = await sandbox.attach(first.id)
        await second.write_stdin(b"two\n")
        assert (await anext(output))[1] == b"got two\n"
        await second.detach()
        await first.write_stdin(b"three\n")
        assert (await anext(output))[1] == b"got three\n"
        await first.close_stdin()
        assert (await ended(first)).stdout.endswith("end\n")

    async def test_what_was_said_before_leaving_counts(self, sandbox: ISandbox) -> None:
        """Input that was written, and closed, right before a handle is let go reaches the command, and so does its end."""
        for number in range(10):
            process = await sandbox.start("wc -c", background=True)
            await process.write_stdin(b"x" * (5000 + number))
            await process.close_stdin()
            await process.detach()
            assert process.id is not None
            assert int((await ended(await sandbox.attach(process.id))).stdout) == 5000 + number

    @pytest.mark.parametrize(
        ("command", "code"),
        [(["no-such-program"], 127), (["/"], 126), ("exit 7", 7), ("kill -TERM $$", 143)],
        ids=["127", "126", "7", "128+15"],
    )
    async def test_how_it_ended_is_told_again(self, sandbox: ISandbox, command: Any, code: int) -> None:
        """An ended command stays attachable, with the same exit code and words as for who was there."""
        before = {info.id for info in await sandbox.processes()}
        told = await ended(await sandbox.start(command, background=True))
        [info] = [info for info in await sandbox.processes() if info.id not in before]
        again = await ended(await sandbox.attach(info.id))
        assert (told.exit_code, again.exit_code) == (code, code)
        assert (again.signal, bool(again.start_error)) == (told.signal, bool(told.start_error))

    async def test_the_last_output_is_kept_with_exact_offsets(self, sandbox: ISandbox) -> None:
        """Of a command that nobody reads, exactly the last max_output bytes are kept, and the list says which."""
        whole = b"".join(b"%d\n" % number for number in range(1, 50_001))
        process = await sandbox.start("seq 50000", background=True, max_output=8192)
        await process.detach()
        info = await listed_as(sandbox, process, lambda info: not info.running)
        assert (info.written.stdout, info.first.stdout) == (len(whole), len(whole) - 8192)
        assert process.id is not None
        handle = await sandbox.attach(process.id)
        result = await ended(handle)
        assert result.stdout_bytes == whole[-8192:]
        assert handle.offsets.stdout == len(whole)

    async def test_a_slow_handle_is_told_what_it_missed(self, sandbox: ISandbox) -> None:
        """A kept command does not wait for who reads: what was replaced meanwhile is counted in the result, to the byte."""
        name, waits = gate()
        process = await sandbox.start(f"{waits}; head -c 5000000 /dev/zero", background=True, max_output=4096)
        assert process.id is not None
        slow = await sandbox.attach(process.id, max_output=8 << 20)
        await sandbox.files.write(name, "")
        await listed_as(sandbox, process, lambda info: info.written.stdout == 5_000_000)
        result = await ended(slow)
        assert 0 < len(result.stdout_bytes) < 5_000_000
        assert len(result.stdout_bytes) + result.omitted.stdout == 5_000_000 == slow.offsets.stdout
        await process.detach()

    async def test_a_flood_stops_nobody(self, sandbox: ISandbox) -> None:
        """While a kept command floods its output, others run, are timed out and are killed as ever."""
        process = await sandbox.start("yes", background=True, max_output=4096)
        try:
            before = (await listed(sandbox, process)).written.stdout
            assert (await sandbox.exec("echo x; exit 3")).exit_code == 3
            assert (await sandbox.exec(["sleep", "60"], timeout=0.2)).fault == "timeout"
            await listed_as(sandbox, process, lambda info: info.written.stdout > before + (1 << 20))
        finally:
            await process.kill()
        assert (await listed(sandbox, process)).fault == "cancelled"

    async def test_a_kept_command_can_have_a_time_out(self, sandbox: ISandbox) -> None:
        """A time-out ends a kept command that nobody waits for, with the output so far."""
        process = await sandbox.start("echo so far; sleep 60", background=True, timeout=1.5)
        await process.detach()
        await listed_as(sandbox, process, lambda info: not info.running)
        assert process.id is not None
        result = await ended(await sandbox.attach(process.id))
        assert (result.fault, result.stdout) == ("timeout", "so far\n")

    async def test_the_output_quota_holds_without_a_reader(self) -> None:
        """The quota on output ends a kept command that nobody reads."""
        async with self.create(quotas=Quotas(output="256KiB")) as sandbox:
            process = await sandbox.start("yes", background=True)
            await process.detach()
            info = await listed_as(sandbox, process, lambda info: not info.running)
            assert info.fault == "output"
            assert info.written.stdout > 256 << 10

    async def test_the_newest_ended_ones_stay(self) -> None:
        """Of ended commands the newest 32 stay; an older one is ProcessLookupError, and so is one that never was."""
        async with self.create() as sandbox:
            started = [await sandbox.start(["true"], background=True) for _ in range(34)]
            for process in started:
                await ended(process)
            kept = [info.id for info in await sandbox.processes()]
            assert kept == [process.id for process in started[2:]]
            for gone in (started[0].id, 1 << 20):
                with pytest.raises(ProcessLookupError):
                    await sandbox.attach(gone)
            assert (await ended(await sandbox.attach(kept[0]))).ok

    async def test_what_is_kept_is_bounded(self) -> None:
        """A command for whose output there is no room is not started, and says so; once another has ended it is."""
        async with self.create() as sandbox:
            large = [await sandbox.start(["sleep", "60"], background=True, max_output=16 << 20) for _ in range(2)]
            refused = await ended(await sandbox.start(["true"], background=True, max_output=16 << 20))
            assert refused.start_error is not None
            assert "memory" in refused.start_error
            assert (await sandbox.exec(["true"])).ok
            await large[0].kill()
            assert (await ended(await sandbox.start(["true"], background=True, max_output=16 << 20))).ok

    async def test_kept_commands_end_with_the_sandbox(self) -> None:
        """Nothing that is kept outlives its sandbox."""
        nap = marker()
        async with self.create() as sandbox:
            await sandbox.start(["sleep", nap], background=True)
            assert len(await processes(sandbox, nap)) == 1
        await until(lambda: not any(nap in line for line in host_command_lines()), "no process of it is left")

    async def test_impossible_ids_are_refused(self, sandbox: ISandbox) -> None:
        """An id that is no number above 0 and offsets that are none are ConfigurationError."""
        for number in (0, -1, True, "1", None):
            with pytest.raises(ConfigurationError, match="attach"):
                await sandbox.attach(number)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="since"):
            await sandbox.attach(1, since=(0, 0))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="stdout"):
            Offsets(-1)

    async def test_a_command_that_is_not_kept_has_no_id(self, sandbox: ISandbox) -> None:
        """Without background= a handle has no id, is in no list, and cannot be let go."""
        before = await sandbox.processes()
        async with await sandbox.start(["sleep", "60"]) as process:
            assert process.id is None
            assert len(await sandbox.processes()) == len(before)
            with pytest.raises(UnsupportedError, match="background"):
                await process.detach()
