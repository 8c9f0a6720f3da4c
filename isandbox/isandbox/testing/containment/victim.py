"""A process of the host that a probe attacks: it holds a canary in memory, survives what it is sent, and tells about it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import select
import subprocess
import sys
from dataclasses import dataclass

import psutil

from isandbox.records import ExecResult
from isandbox.testing.containment.arena import Arena, Box

# Lower numbers are likely to be a process's inside as well: then an attack by number would meet the wrong one.
LEAST_PID = 300
_TRIES = 400
_PATIENCE = 10.0
_LOOK, _STEP = 3.0, 0.02  # seconds

_PROGRAM = r"""
import ctypes, json, os, signal, sys
hits = []
canary = sys.stdin.readline().strip().encode()
memory = ctypes.create_string_buffer(canary)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGURG, signal.SIGCONT):
    signal.signal(number, lambda number, frame: hits.append(number))
print(ctypes.addressof(memory), flush=True)
while sys.stdin.readline():
    print(json.dumps([hits, memory.value == canary, os.getpriority(os.PRIO_PROCESS, 0)]), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Harm:
    """What became of a victim. ``signals``: numbers of those that came. ``alive`` is false when it does not answer."""

    alive: bool
    signals: tuple[int, ...] = ()
    memory_is_the_same: bool = True
    priority: int = 0

    @property
    def none(self) -> bool:
        return self.alive and not self.signals and self.memory_is_the_same


class Victim:
    """A Python program of the host. ``pid`` is the host's number, ``address`` where its canary lies.

    ``like``: a process of the sandbox as the host sees it; as root the victim then has its ids, so that the same user is no
    excuse. It has a process group of its own. Anything that could be in the way of the start is an `OSError`.
    """

    def __init__(self, canary: str, like: psutil.Process | None = None) -> None:
        self._process = _started(like)
        try:
            self.address = int(self._ask(canary) or "0")
            if self.address == 0:
                raise OSError("the process to attack did not start")
        except BaseException:
            self.close()
            raise
        self.pid = self._process.pid

    def harm(self) -> Harm:
        """What it says of itself. One that does not answer within ten seconds is as good as dead."""
        try:
            signals, same, priority = json.loads(self._ask("?"))
        except (OSError, ValueError):
            return Harm(alive=False)
        return Harm(alive=True, signals=tuple(signals), memory_is_the_same=same, priority=priority)

    def close(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._process.wait(_PATIENCE)

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        answered, _, _ = select.select([self._process.stdout], [], [], _PATIENCE)
        return self._process.stdout.readline().decode() if answered else ""


def _started(like: psutil.Process | None) -> subprocess.Popen[bytes]:
    """Until its number is high enough."""
    take = like is not None and os.geteuid() == 0
    for _ in range(_TRIES):
        process = subprocess.Popen(
            [os.path.realpath(sys.executable), "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env={},
            process_group=0,
            user=like.uids().real if take and like else None,
            group=like.gids().real if take and like else None,
            extra_groups=[] if take else None,
        )
        if process.pid >= LEAST_PID:
            return process
        process.communicate(timeout=_PATIENCE)
    raise OSError(f"no process here gets a number of {LEAST_PID} or more")


async def victim(arena: Arena, *, like: psutil.Process | None = None) -> Victim:
    """A victim that goes with the probe, its canary one of the arena's."""
    made = Victim(arena.canaries.new(), like)
    arena.stack.callback(made.close)
    return made


# Started inside, to be found on the host by its argument: it answers nobody and ends by itself.
IDLE = "import signal, sys, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; print('here', flush=True); time.sleep(60)"


class Inhabitant:
    """A program that runs in a sandbox meanwhile. ``seen``: its processes as the host sees them; none when it cannot, because
    the sandbox is elsewhere.
    """

    def __init__(self, box: Box, program: str, marker: str) -> None:
        self._end = asyncio.ensure_future(box.exec(["python3", "-I", "-c", program, marker], timeout=90))
        self.marker = marker
        self.seen: list[psutil.Process] = []

    async def look(self, *, seconds: float = _PATIENCE) -> None:
        """Wait until the host sees it, it has ended, or ``seconds`` are over."""
        for _ in range(int(seconds / _STEP)):
            self.seen = marked(self.marker)
            if self.seen or self._end.done():
                return
            await asyncio.sleep(_STEP)

    async def result(self) -> ExecResult:
        """When it has ended."""
        return await asyncio.wait_for(asyncio.shield(self._end), _PATIENCE)

    async def close(self) -> None:
        """End it; how it ends is nobody's business any more."""
        self._end.cancel()
        await asyncio.wait([self._end])
        if not self._end.cancelled():
            self._end.exception()


async def inhabitant(arena: Arena, box: Box, *, program: str = IDLE) -> Inhabitant:
    """Start ``program`` in ``box``, with a word as its argument by which it is found. It goes with the probe."""
    made = Inhabitant(box, program, f"inside-{secrets.token_hex(8)}")
    arena.stack.push_async_callback(made.close)
    await made.look(seconds=_LOOK)
    return made


def marked(marker: str) -> list[psutil.Process]:
    """Processes of the machine with the marker as an argument, the last one, that have not ended."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cmdline()[-1:] == [marker] and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
