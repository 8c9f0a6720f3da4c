"""Kept commands of a detached sandbox: they belong to it, and to no client."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from isandbox import Offsets, SandboxClosedError, TerminalSize, connect, create_sandbox

pytestmark = pytest.mark.native

LIFETIME = 300.0
_WAIT = 60


@contextlib.asynccontextmanager
async def detached(backend: str) -> AsyncIterator[Any]:
    sandbox = await create_sandbox(backend, detached=True, lifetime=LIFETIME)
    try:
        yield sandbox
    finally:
        await sandbox.detach()
        async with connect(sandbox.info.id) as last:
            await last.close()


async def test_another_client_goes_on_where_the_first_was(backend: str) -> None:
    """Output, input and the end of a kept command are the same for a client that came later, also once the first has gone."""
    async with detached(backend) as first:
        process = await first.start("echo one; read x; echo got $x; exit 4", background=True)
        assert (await anext(process.__aiter__()))[1] == b"one\n"
        offsets = process.offsets
        await first.detach()
        with pytest.raises(SandboxClosedError):
            await process.wait()
        async with connect(first.info.id) as second:
            [info] = await second.processes()
            assert (info.id, info.running, info.written) == (process.id, True, Offsets(4, 0))
            handle = await second.attach(info.id, since=offsets)
            await handle.write_stdin(b"hello\n")
            result = await asyncio.wait_for(handle.wait(), _WAIT)
            assert (result.exit_code, result.stdout) == (4, "got hello\n")


async def test_only_what_is_kept_outlives_its_client(backend: str) -> None:
    """When a client goes, its other commands end with it, and the terminal that it had alone is hung up; a kept one stays."""
    async with detached(backend) as first:
        plain = await first.start("sleep 61")
        terminal = await first.start("sleep 62", terminal=TerminalSize())
        kept = await first.start("sleep 63", background=True, terminal=TerminalSize())
        pids = [process.pid for process in (plain, terminal, kept)]
        await first.detach()
        async with connect(first.info.id) as second:
            gone = f"while kill -0 {pids[0]} || kill -0 {pids[1]}; do sleep 0.02; done 2>/dev/null"
            assert (await second.exec(gone, timeout=_WAIT)).ok
            assert (await second.exec(f"kill -0 {pids[2]}")).ok
            handle = await second.attach(kept.id)
            await handle.kill()
            assert (await handle.wait()).fault == "cancelled"


async def test_ids_of_two_clients_do_not_meet(backend: str) -> None:
    """Two clients that each name their commands from 1 on reach their own ones only."""
    async with detached(backend) as first, connect(first.info.id) as second:
        mine = await first.start("read x; exit 3", background=True)
        theirs = await second.start("read x; exit 5", background=True)
        attached = await second.attach(mine.id)
        await theirs.kill()
        assert (await theirs.wait()).fault == "cancelled"
        await attached.signal(signal.SIGTERM)
        for handle in (mine, attached):
            assert (await asyncio.wait_for(handle.wait(), _WAIT)).signal == signal.SIGTERM


def test_a_client_that_is_killed_ends_no_kept_command(backend: str, other: Any) -> None:
    """Kill -9 of a client in the middle of a conversation closes nothing of the command's: another goes on with it."""
    code = """
import os, signal
from isandbox.sync import connect
sandbox = connect(args[0])
process = sandbox.attach(int(args[1]))
process.write_stdin(b"half a line")
os.kill(os.getpid(), signal.SIGKILL)
"""

    async def main() -> None:
        async with detached(backend) as sandbox:
            process = await sandbox.start("cat; echo end", background=True)
            with contextlib.suppress(Exception):  # it is killed before it says anything
                await asyncio.to_thread(other, code, sandbox.info.id, str(process.id))
            assert (await anext(process.__aiter__()))[1] == b"half a line"  # what two clients write at once has no order
            await process.write_stdin(b" and the rest\n")
            await process.close_stdin()
            assert (await asyncio.wait_for(process.wait(), _WAIT)).stdout == "half a line and the rest\nend\n"

    asyncio.run(main())


VIEWERS = """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
sandbox = sync.create_sandbox(args[0], detached=True, lifetime=300)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
process = sandbox.start(["sleep", "100"], background=True, stderr="merge")
process.close_stdin()
handles = [sandbox.attach(process.id) for _ in range(40)]
for handle in handles:
    handle.close_stdin()
with sync.connect(sandbox.info.id) as again:
    say(again.exec(["true"]).ok)
for handle in handles:
    handle.detach()
process.detach()
sandbox.close()
"""


def test_more_that_could_be_waited_for_than_files(backend: str, other: Any) -> None:
    """A helper that may have few files open waits for those alone: forty handles, of which each could have four, do no harm."""
    assert other(VIEWERS, backend) is True
