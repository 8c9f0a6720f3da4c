"""Many at once: commands, verbs, sandboxes."""

from __future__ import annotations

import asyncio

import pytest

from isandbox import ISandbox, SandboxClosedError
from isandbox.testing.contract.base import Contract


class ConcurrencyPromises(Contract):
    async def test_commands_run_concurrently_without_mixing(self, sandbox: ISandbox) -> None:
        """Twenty commands at once: each result holds its own output and nothing else."""
        results = await asyncio.gather(*(sandbox.exec(f"echo {n}; sleep 0.2; echo {n} >&2") for n in range(20)))
        assert [(r.stdout, r.stderr) for r in results] == [(f"{n}\n", f"{n}\n") for n in range(20)]

    async def test_each_command_has_its_own_time_out(self, sandbox: ISandbox) -> None:
        """Of twenty commands at once exactly those that are over their own time-out are ended."""
        results = await asyncio.gather(
            *(sandbox.exec(f"sleep {60 if n % 2 else 0.5}; echo {n}", timeout=0.2 if n % 2 else 60) for n in range(20))
        )
        assert [(r.fault, r.stdout) for r in results] == [("timeout", "") if n % 2 else (None, f"{n}\n") for n in range(20)]

    async def test_a_slow_command_delays_no_other(self, sandbox: ISandbox) -> None:
        """Commands and verbs do not queue behind one that runs: it may even wait for what they do."""
        waiting = asyncio.create_task(sandbox.exec("until [ -e released ]; do sleep 0.02; done; echo on", timeout=60))
        assert (await sandbox.exec("echo quick")).stdout == "quick\n"
        await sandbox.files.write("released", "")
        assert (await waiting).stdout == "on\n"
        await sandbox.files.remove("released")

    async def test_file_verbs_run_at_once(self, sandbox: ISandbox) -> None:
        """Fifty writes and reads at once, and the answers belong to the questions."""
        await asyncio.gather(*(sandbox.files.write(f"at-once/{n}", str(n) * 1000 * n) for n in range(50)))
        texts = await asyncio.gather(*(sandbox.files.read_text(f"at-once/{n}") for n in range(50)))
        assert texts == [str(n) * 1000 * n for n in range(50)]
        assert len(await sandbox.files.list("at-once")) == 50

    async def test_two_writers_do_not_mix(self, sandbox: ISandbox) -> None:
        """Two writes to one stdin at the same time arrive one after the other, each whole."""
        size = 300_000
        async with await sandbox.start("sleep 0.2; cat") as process:
            writers = [asyncio.create_task(process.write_stdin(letter * size)) for letter in (b"a", b"b")]
            waiting = asyncio.create_task(process.wait())
            await asyncio.gather(*writers)
            await process.close_stdin()
            data = (await waiting).stdout_bytes
        assert data in (b"a" * size + b"b" * size, b"b" * size + b"a" * size)

    async def test_twenty_sandboxes_at_once(self) -> None:
        """Twenty sandboxes are made, used and closed at the same time; each has its own id and its own workspace."""

        async def one(n: int) -> tuple[str, str]:
            async with self.create() as sandbox:
                await sandbox.files.write("own", str(n))
                result = await sandbox.exec("cat own; ls | wc -l", check=True)
                assert result.stdout == f"{n}1\n"
                return sandbox.info.id, result.stdout

        made = await asyncio.gather(*map(one, range(20)))
        assert len({name for name, _ in made}) == 20

    async def test_closing_ends_every_pending_call(self) -> None:
        """Whatever waits on a sandbox when it is closed, commands, handles, full pipes, ends with SandboxClosedError or its
        own success; nothing hangs.
        """
        sandbox = await self.create()
        running = [asyncio.create_task(sandbox.exec("sleep 60")) for _ in range(8)]
        process = await sandbox.start("sleep 60")
        running.append(asyncio.create_task(process.wait()))
        writing = asyncio.create_task(process.write_stdin(b"x" * (3 << 20)))
        await asyncio.sleep(0.2)
        await sandbox.close()
        ends = await asyncio.wait_for(asyncio.gather(*running, writing, return_exceptions=True), 30)
        assert [type(end) for end in ends[:-1]] == [SandboxClosedError] * 9
        assert isinstance(ends[-1], (SandboxClosedError, BrokenPipeError))
        with pytest.raises(SandboxClosedError):
            await process.wait()

    async def test_the_event_loop_goes_on(self) -> None:
        """Other tasks of the loop get their turns while a sandbox is made, moves 20 MiB each way, and is closed."""
        turns = 0

        async def tick() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        ticker = asyncio.create_task(tick())
        data = b"x" * (20 << 20)
        try:
            before = turns
            sandbox = await self.create()
            assert turns > before, "create"
            async with sandbox:
                for what, work in (
                    ("exec", sandbox.exec(["cat"], input=data, max_output=1000, timeout=60)),
                    ("write", sandbox.files.write("large", data)),
                    ("read", sandbox.files.read_bytes("large")),
                    ("timeout", sandbox.exec("sleep 60", timeout=0.1)),
                ):
                    before = turns
                    await work
                    assert turns > before + 2, what
        finally:
            ticker.cancel()
