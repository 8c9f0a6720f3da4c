"""Sandboxes that stay: their commands, and the processes that make and share them."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from typing import TYPE_CHECKING, Any

import pytest

from isandbox import ISandbox, Quotas, SandboxClosedError, SandboxLostError, sync
from isandbox.testing.contract.base import (
    Contract,
    forked,
    host_command_lines,
    in_forked_child,
    in_time_async,
    marker,
    processes,
    until,
    within,
)
from isandbox.testing.contract.detached import LIFETIME, closed_if_it_fails, lost

if TYPE_CHECKING:
    from pathlib import Path


async def running(sandbox: ISandbox, marker: str, *, runs: bool) -> None:
    """Look until a process inside has the marker, or none has it; the last of many looks decides."""
    for _ in range(200):
        found = await processes(sandbox, marker)
        if bool(found) == runs:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"still {'not there' if runs else 'there'}: {marker} {found}")


class DetachedCommandPromises(Contract):
    """What staying means for commands and across processes."""

    def test_it_outlives_its_maker(self, tmp_path: Path) -> None:
        """A sandbox made by a process that is killed afterwards is there for another one, with its files and its way to run."""

        def make() -> None:
            sandbox = self.create_sync(env={"MINE": "kept"}, labels={"job": "42"})
            sandbox.exec("echo $MINE > by-the-maker", check=True)
            (tmp_path / "id").write_text(sandbox.info.id)
            os.kill(os.getpid(), signal.SIGKILL)

        assert in_forked_child(make) == ""
        made = (tmp_path / "id").read_text()
        try:
            with sync.connect(made) as connected:
                assert connected.info.labels == {"job": "42"}
                assert connected.files.read_text("by-the-maker") == "kept\n"
                assert connected.exec("echo $MINE; cat by-the-maker").stdout == "kept\nkept\n"
        finally:
            assert sync.kill_sandbox(made)

    def test_it_outlives_a_maker_that_leaves(self, tmp_path: Path) -> None:
        """A process that ends in its ordinary way, with or without detach, leaves its sandbox behind too."""
        for lets_go in (True, False):

            def make(lets_go: bool = lets_go) -> None:
                sandbox = self.create_sync()
                (tmp_path / "id").write_text(sandbox.info.id)
                if lets_go:
                    sandbox.detach()

            assert in_forked_child(make) == "nothing"
            made = (tmp_path / "id").read_text()
            try:
                with sync.connect(made) as connected:
                    assert connected.exec("echo x").stdout == "x\n"
            finally:
                assert sync.kill_sandbox(made)

    def test_one_key_is_one_sandbox_across_processes(self, tmp_path: Path) -> None:
        """Two processes that ask at once under one idempotency_key get the same sandbox, which both can use."""
        key = secrets.token_hex(8)

        def ask(name: str) -> None:
            sandbox = self.create_sync(idempotency_key=key, env={"MINE": "x"})
            sandbox.exec(f"echo $MINE > {name}", check=True)
            (tmp_path / name).write_text(sandbox.info.id)
            sandbox.detach()

        waits = [forked(lambda name=name: ask(name)) for name in ("one", "two")]  # type: ignore[misc]
        assert [wait() for wait in waits] == ["nothing", "nothing"]
        ids = {(tmp_path / name).read_text() for name in ("one", "two")}
        try:
            assert len(ids) == 1
            with sync.connect(ids.copy().pop()) as connected:
                assert connected.exec("cat one two").stdout == "x\nx\n"
        finally:
            assert [sync.kill_sandbox(made) for made in ids] == [True] * len(ids)

    async def test_a_connection_runs_as_the_maker_does(self) -> None:
        """Commands of a connection have the environment, directory, user and limits that those of the maker have."""
        script = "echo $MINE $HOME $PATH; pwd; id -u; umask; ulimit -n; ulimit -c"
        async with (
            self.create(env={"MINE": "x"}, quotas=Quotas(open_files=99)) as made,
            self.connect(made.info.id) as connected,
        ):
            here, there = await made.exec(script), await connected.exec(script)
            assert (here.stdout, here.stderr) == (there.stdout, there.stderr)
            assert "\n99\n" in there.stdout

    async def test_quotas_hold_for_a_connection(self) -> None:
        """A quota of the sandbox is a quota of what a connection runs: too much output, too much memory."""
        async with self.create(quotas=Quotas(output="64KiB", memory="128MiB")) as made:
            await made.detach()
            async with self.connect(made.info.id) as connected:
                assert connected.info.quotas == made.info.quotas
                assert (await connected.exec("yes")).fault == "output"
                hungry = "x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo ${#x}"
                assert (await connected.exec(hungry)).fault == "oom"
                assert (await connected.exec("echo on")).stdout == "on\n"
                await connected.close()

    async def test_letting_go_ends_own_commands_alone(self) -> None:
        """Detach ends what that handle runs, whose caller hears SandboxClosedError; another handle's command goes on."""
        mine, others = marker(), marker()
        async with self.create() as made:
            connected = await self.connect(made.info.id)
            ends = asyncio.create_task(connected.exec(f"sleep {mine}"))
            goes_on = await made.start(f"sleep {others} & read x; echo got $x")
            await running(made, mine, runs=True)
            await running(made, others, runs=True)
            await connected.detach()
            with pytest.raises(SandboxClosedError):
                await ends
            await running(made, mine, runs=False)
            assert await processes(made, others) != []
            await goes_on.write_stdin(b"on\n")
            assert (await goes_on.wait()).stdout == "got on\n"

    async def test_a_killed_client_ends_its_own_commands(self, tmp_path: Path) -> None:
        """When a process that was connected is killed, what it ran ends, and the sandbox serves the others on."""
        nap = marker()
        async with self.create() as made:

            def use() -> None:
                process = sync.connect(made.info.id).start(f"echo ready; sleep {nap}")
                assert next(iter(process)) == ("stdout", b"ready\n")
                os.kill(os.getpid(), signal.SIGKILL)

            assert await asyncio.to_thread(in_forked_child, use) == ""
            await until(lambda: not [line for line in host_command_lines() if nap in line], "gone with its client")
            assert (await made.exec("echo on")).stdout == "on\n"

    async def test_clients_commands_do_not_mix(self) -> None:
        """Commands of three handles at once, several each, have their own output and exit codes."""
        async with self.create() as made:
            handles = [made, *[await self.connect(made.info.id) for _ in range(2)]]

            async def work(n: int) -> tuple[int, Any]:
                result = await handles[n % 3].exec(f"sleep 0.1; head -c 200000 /dev/zero | tr '\\0' {n}; exit {n}")
                assert set(result.stdout) == {str(n)}
                return len(result.stdout), result.exit_code

            assert await asyncio.gather(*(work(n) for n in range(9))) == [(200_000, n) for n in range(9)]
            for sandbox in handles[1:]:
                await sandbox.detach()

    async def test_its_end_is_no_result(self) -> None:
        """A command that runs when another handle closes the sandbox, or its lifetime ends, is SandboxLostError, and is gone."""
        for how in ("close", "kill", "lifetime"):
            nap = marker()

            async def begin(lifetime: float, nap: str = nap) -> tuple[Any, Any]:
                with within(lifetime):
                    made = await self.create(lifetime=lifetime)
                    async with closed_if_it_fails(made):
                        task = asyncio.create_task(made.exec(f"setsid sleep {nap} & sleep {nap}"))
                        await until(lambda: task.done() or any(nap in line for line in host_command_lines()), "begun")
                        assert not task.done() or task.exception() is None, "it has ended"
                return made, task

            made, task = await (in_time_async(begin) if how == "lifetime" else begin(LIFETIME))
            if how == "close":
                await (await self.connect(made.info.id)).close()
            elif how == "kill":
                assert await self.kill_sandbox(made.info.id)
            else:
                await made.renew(0.3)
            with pytest.raises(SandboxLostError, match="lifetime" if how == "lifetime" else "lost"):
                await task
            await until(lambda nap=nap: not any(nap in line for line in host_command_lines()), "gone")  # type: ignore[misc]
            await made.close()

    async def test_a_command_is_no_idle_time(self) -> None:
        """While a command runs the sandbox is not idle; when it has ended, and nothing else comes, it ends after idle_timeout=."""

        async def begin(idle: float) -> tuple[Any, float]:
            with within(idle):
                made = await self.create(idle_timeout=idle)
                async with closed_if_it_fails(made):
                    process = await made.start(f"sleep {2 * idle}; echo woken")
            async with closed_if_it_fails(made):
                assert (await process.wait()).stdout == "woken\n"
                with within(idle):
                    assert (await made.exec("echo on")).stdout == "on\n"
            return made, idle

        made, idle = await in_time_async(begin)
        await asyncio.sleep(2 * idle)  # without a question, which may be use
        assert "idle" in await lost(made)
        await made.close()

    async def test_a_crash_is_told(self) -> None:
        """When the sandbox crashes each handle is SandboxLostError, connect does not find it, and kill_sandbox is False."""
        made = await self.create()
        connected = await self.connect(made.info.id)
        await self.lose(made)
        await lost(made)
        await lost(connected)
        with pytest.raises(LookupError):
            await self.connect(made.info.id)
        assert await self.kill_sandbox(made.info.id) is False
        assert made.info.id not in await self._running(made)
        await made.close()
        await connected.detach()

    async def _running(self, sandbox: ISandbox) -> set[str]:
        found = await self.list_sandboxes(type=sandbox.info.backend)
        return {summary.id for summary in found if summary.state == "running"}
