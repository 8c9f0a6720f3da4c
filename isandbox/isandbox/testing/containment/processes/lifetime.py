"""Nothing outlives its command, its sandbox or the program that holds it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from isandbox.records import ExecResult
from isandbox.testing.containment.arena import Arena, BackendTarget
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.victim import marked

# A daemon as they are made: two forks, a session and a name of its own, no open descriptor, deaf to what can be ignored.
_DAEMON = r"""
import ctypes, os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(15, b"kworker/0:1", 0, 0, 0)
    os.closerange(0, 256)
    for _ in range(600):
        time.sleep(0.1)
    os._exit(0)
"""
_AND_EXIT = "time.sleep(0.2)\n"
_AND_STAY = "time.sleep(30)\n"
_PATIENCE = 10.0


async def _until(marker: str, *, gone: bool) -> bool:
    """Whether processes with the marker are gone, or there, before patience is over."""
    for _ in range(int(_PATIENCE / 0.05)):
        if bool(marked(marker)) != gone:
            return True
        await asyncio.sleep(0.05)
    return False


@contextlib.asynccontextmanager
async def _meanwhile(command: Coroutine[Any, Any, ExecResult]) -> AsyncIterator[asyncio.Task[ExecResult]]:
    """A command that runs beside what is done here. Left early, it is ended."""
    task = asyncio.ensure_future(command)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, so that nobody is told that it was not


def _command(program: str, marker: str) -> list[str]:
    return ["python3", "-I", "-c", program, marker]


_UNSEEN = Verdict("VACUOUS", detail="the host does not see processes of this sandbox, so it cannot see that they are gone")


@probe("B18", "Daemons do not outlive their command's time-out or their sandbox", claim="lifetime")
async def daemons(arena: Arena) -> Verdict:
    """A process that has forked twice, left its session and ignores signals ends with its command's time-out; one that a
    finished command left behind ends when the sandbox is closed, which is not long in coming.
    """
    late, left = (f"daemon-{secrets.token_hex(8)}" for _ in range(2))
    async with arena.target.create() as sandbox:
        async with _meanwhile(sandbox.exec(_command(_DAEMON + _AND_STAY, late), timeout=1)) as running:
            seen = await _until(late, gone=False)
            result = await running
        if not seen:
            return _UNSEEN
        if result.fault != "timeout" or not await _until(late, gone=True):
            return Verdict("LEAK", detail=f"fault {result.fault}; left by a time-out: {marked(late)}")
        finished = await sandbox.exec(_command(_DAEMON + _AND_EXIT, left), timeout=10)
        if finished.exit_code != 0:
            return Verdict("VACUOUS", detail=f"the command that leaves a daemon failed: {finished.stderr[-200:]}")
        background = bool(marked(left))
    if not await _until(left, gone=True):
        return Verdict("LEAK", detail=f"left by the sandbox: {marked(left)}")
    detail = "a daemon of a finished command " + ("lived until the sandbox was closed" if background else "ended with it")
    return Verdict("CONTAINED", "the sandbox ends its processes", detail)


_HOLDER = """
import asyncio, json, sys
import isandbox
given = json.loads(sys.stdin.readline())
async def hold():
    sandbox = await isandbox.create_sandbox(given["type"], **given["options"])
    await sandbox.exec(given["command"], timeout=10)
    print("held", flush=True)
    await asyncio.sleep(60)
asyncio.run(hold())
"""


@probe("B19", "A sandbox ends when the program that holds it is killed", claim="lifetime")
async def holder_killed(arena: Arena) -> Verdict:
    """After SIGKILL of the program that made it, with no chance to close anything, no process of the sandbox runs on."""
    target = arena.target
    if not isinstance(target, BackendTarget):
        return Verdict("NOT-PROVIDED", detail="only a backend's sandbox can be held by another program")
    marker = f"daemon-{secrets.token_hex(8)}"
    given = {**target.made_by, "command": _command(_DAEMON + _AND_EXIT, marker)}
    # What the sandbox of a killed program leaves in its temporary directory goes with this one.
    holder = _hold(given, str(arena.directory()))
    assert holder.stdout is not None
    try:
        said = await asyncio.to_thread(holder.stdout.readline)
        if said != b"held\n" or not await _until(marker, gone=False):
            return Verdict("VACUOUS", detail=f"no sandbox was held, or the host does not see into it: {said!r}")
        holder.kill()
        ended = await _until(marker, gone=True)
    finally:
        holder.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            holder.communicate(timeout=_PATIENCE)
    if not ended:
        return Verdict("LEAK", detail=f"outlived the program that held it: {marked(marker)}")
    return Verdict("CONTAINED", "the sandbox watches the program that holds it")


def _hold(given: dict[str, Any], temporary: str) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": temporary},
    )
    assert holder.stdin is not None
    holder.stdin.write(json.dumps(given).encode() + b"\n")
    holder.stdin.flush()
    return holder


_STOP = r"""
import os, signal, sys, time
if os.getpgrp() != os.getpid():
    os.setpgid(0, 0)  # a group that the sandbox did not make may be the caller's
# A sibling that holds the pipe of the output, stopped; then the first process and the parent; then the whole group.
if os.fork() == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
for pid in {1, os.getppid()} - {0, os.getpid(), *map(int, sys.argv[1].split("-")[1].split(","))}:
    try:
        os.kill(pid, signal.SIGSTOP)
    except OSError:
        pass
print("stopping", flush=True)
os.kill(0, signal.SIGSTOP)
print("went on", flush=True)
time.sleep(30)
"""


@probe("B24", "Stopped processes neither hang the caller nor live on", claim="lifetime")
async def stopped(arena: Arena) -> Verdict:
    """A command that stops itself, its group, a child that holds its output and, where it can, what keeps it, is ended by its
    time-out and not taken for finished, and nothing of it is left when the sandbox is closed.
    """
    # Never the program that probes: where the sandbox is broken it may be the parent. The host's first process minds no SIGSTOP.
    callers = ",".join(str(pid) for pid in (os.getpid(), os.getppid()) if pid > 1) or "0"
    marker = f"stopped-{callers}-{secrets.token_hex(8)}"
    async with arena.target.create() as sandbox:
        async with _meanwhile(sandbox.exec(_command(_STOP, marker), timeout=1)) as running:
            seen = await _until(marker, gone=False)
            result = await running
        arena.saw(result)
        if "stopping" not in result.stdout or not seen:
            return Verdict("VACUOUS", detail=f"it did not come to that, or the host does not see it: {result.stderr[-200:]}")
        if result.fault is None:
            return Verdict("LEAK", detail=f"being stopped was taken for an end: exit {result.exit_code}, {result.stdout!r}")
    if not await _until(marker, gone=True):
        return Verdict("LEAK", detail=f"left by the sandbox: {marked(marker)}")
    return Verdict("CONTAINED", "the sandbox ends its processes", f"fault {result.fault}")
