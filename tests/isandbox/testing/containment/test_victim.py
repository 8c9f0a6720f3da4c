"""The host's process that probes attack: it must notice what is done to it, and go when the probe goes."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import struct
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from isandbox import ExecResult
from isandbox.testing.containment.numbers import NUMBERS
from isandbox.testing.containment.victim import LEAST_PID, Inhabitant, Victim, marked

CANARY = "canary0123456789abcdef"


@pytest.fixture
def victim() -> Iterator[Victim]:
    made = Victim(CANARY)
    yield made
    made.close()


def test_a_victim_that_is_left_alone_is_unharmed(victim: Victim) -> None:
    """Nothing happened, so nothing is told; its number is one that no sandbox gives."""
    assert victim.pid >= LEAST_PID
    assert victim.harm().none


def test_signals_are_told(victim: Victim) -> None:
    """What would end another program is survived and told, each with its number."""
    for number in (signal.SIGTERM, signal.SIGURG):
        os.kill(victim.pid, number)
    harm = victim.harm()
    assert (harm.alive, set(harm.signals), harm.none) == (True, {signal.SIGTERM, signal.SIGURG}, False)


def test_changed_memory_is_told(victim: Victim) -> None:
    """The canary lies at the address that is given, and a byte of it that is overwritten is noticed."""
    libc = ctypes.CDLL(None, use_errno=True)
    byte = ctypes.create_string_buffer(b"X", 1)
    mine, its = (struct.pack("<QQ", address, 1) for address in (ctypes.addressof(byte), victim.address))
    number, pid, one, none = map(ctypes.c_long, (NUMBERS[os.uname().machine]["process_vm_writev"], victim.pid, 1, 0))
    if libc.syscall(number, pid, mine, one, its, one, none) != 1:
        pytest.skip(f"this machine keeps a process from its own child: {os.strerror(ctypes.get_errno())}")
    harm = victim.harm()
    assert (harm.alive, harm.memory_is_the_same) == (True, False)


def test_a_dead_victim_is_told(victim: Victim) -> None:
    """No answer is harm."""
    os.kill(victim.pid, signal.SIGKILL)
    assert not victim.harm().alive


def test_a_victim_goes() -> None:
    """After close there is no process left."""
    made = Victim(CANARY)
    made.close()
    assert not psutil.pid_exists(made.pid)


class Bare:
    """Something with an exec: a plain process."""

    async def exec(self, command: Any, /, **options: Any) -> ExecResult:
        process = await asyncio.create_subprocess_exec(sys.executable, *command[1:], stdout=asyncio.subprocess.PIPE)
        try:
            out, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        return ExecResult(process.returncode or 0, stdout_bytes=out)


async def test_an_inhabitant_is_seen_and_ended() -> None:
    """What runs in a sandbox is found on the host by its last argument, and no other program by having it elsewhere."""
    inside = Inhabitant(Bare(), "import time; time.sleep(60)", "inside-for-this-test")
    await inside.look()
    assert len(inside.seen) == 1
    assert marked("import time; time.sleep(60)") == []
    await inside.close()
    assert marked("inside-for-this-test") == []


async def test_what_an_inhabitant_said_can_be_read() -> None:
    """One that ends by itself has a result."""
    inside = Inhabitant(Bare(), "print('said')", "inside-for-this-test")
    assert (await inside.result()).stdout == "said\n"
    await inside.close()
