"""Sandboxes that stay: commands that go on when whoever started them has gone."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from isandbox import Offsets, SandboxLostError, sync
from isandbox.testing.contract.base import Contract, host_command_lines, in_forked_child, in_time_async, marker, until, within
from isandbox.testing.contract.detached import LIFETIME, closed_if_it_fails

if TYPE_CHECKING:
    from pathlib import Path


class DetachedKeptCommandPromises(Contract):
    """Kept commands across clients and processes."""

    verbs: ClassVar[tuple[str, ...]] = ("attach",)

    async def test_a_kept_command_outlives_its_client(self, tmp_path: Path) -> None:
        """A kept command of a process that is killed goes on; another client lists it, and reads all of its output, or a part."""
        async with self.create() as made:

            def begin() -> None:
                process = sync.connect(made.info.id).start("echo one; read x; echo $x", background=True)
                assert next(iter(process)) == ("stdout", b"one\n")
                (tmp_path / "id").write_text(str(process.id))
                os.kill(os.getpid(), signal.SIGKILL)

            assert in_forked_child(begin) == ""
            number = int((tmp_path / "id").read_text())
            async with self.connect(made.info.id) as connected:
                assert [(command.id, command.running) for command in await connected.processes()] == [(number, True)]
                process = await connected.attach(number)
                await process.write_stdin(b"two\n")
                assert (await process.wait()).stdout == "one\ntwo\n"
                rest = await (await made.attach(number, since=Offsets(stdout=4))).wait()
                assert (rest.stdout, rest.exit_code) == ("two\n", 0)

    async def test_letting_go_leaves_kept_commands(self) -> None:
        """Detach lets a kept command go on, for each client to find, signal and kill; close ends it with the sandbox."""
        nap = marker()
        made = await self.create()
        first = await made.start(f"sleep {nap}", background=True)
        second = await made.start(f"sleep {nap}", background=True)
        assert first.id is not None
        await made.detach()
        async with self.connect(made.info.id) as connected:
            assert {command.id for command in await connected.processes() if command.running} == {first.id, second.id}
            process = await connected.attach(first.id)
            await process.kill()
            assert (await process.wait()).fault == "cancelled"
        connected = await self.connect(made.info.id)
        assert {command.id for command in await connected.processes() if command.running} == {second.id}
        await connected.close()
        await until(lambda: not [line for line in host_command_lines() if nap in line], "gone with the sandbox")

    async def test_a_kept_command_is_no_idle_time(self) -> None:
        """A kept command that runs keeps the sandbox from being idle, though no client is connected; its lifetime ends it."""

        async def begin(idle: float) -> tuple[Any, Any]:
            with within(idle):
                made = await self.create(idle_timeout=idle, lifetime=LIFETIME)
                async with closed_if_it_fails(made):
                    process = await made.start("sleep 600", background=True)
            await made.detach()
            await asyncio.sleep(2 * idle)  # with nobody connected
            return await self.connect(made.info.id), process

        connected, process = await in_time_async(begin)
        handle = await connected.attach(process.id)
        await connected.renew(0.5)
        with pytest.raises(SandboxLostError, match="lifetime"):
            await handle.wait()
        await connected.close()
