"""What does a command that floods its output cost the host: memory, and time beside a plain pipe?

Each measurement has an interpreter of its own: the peak of a process's memory only ever grows.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.measure import Answer, Bar, interleave
from isandbox.command import MAX_OUTPUT_DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.measure import Case

ROUNDS = 5
BYTES = 2_000_000_000
BAR_MIB = 32.0
_FLOOD = ["head", "-c", str(BYTES), "/dev/zero"]


def run(rounds: int | None = None) -> Answer:
    growth: dict[str, list[float]] = {name: [] for name in _WAYS}

    def case(name: str) -> Case:
        def measure() -> float:
            said = subprocess.run([sys.executable, "-m", "benchmarks.output", name], stdout=subprocess.PIPE, check=True).stdout
            figures = json.loads(said)
            growth[name].append(figures["growth"])
            return float(figures["seconds"])

        return measure

    answer = Answer("output", "s", interleave({name: case(name) for name in _WAYS}, rounds or ROUNDS))
    pipe = answer.median("pipe")
    for name in ("isandbox", "isandbox async"):
        worst = max(growth[name]) / 2**20
        answer.bars.append(Bar(f"{name} host memory grows by {worst:.2f} MiB at most", worst, BAR_MIB, "MiB"))
        rate = BYTES / 2**20 / answer.median(name)
        answer.notes.append(f"{name}: {rate:.0f} MiB/s, {pipe / answer.median(name):.2f} times the plain pipe's")
    answer.notes.append(f"pipe: {BYTES / 2**20 / pipe:.0f} MiB/s")
    return answer


def _blocking() -> Callable[[], None]:
    import isandbox.sync

    sandbox = isandbox.sync.create_sandbox("seccomp")

    def flood() -> None:
        with sandbox:
            result = sandbox.exec(_FLOOD)
        assert result.ok
        assert result.omitted.stdout == BYTES - MAX_OUTPUT_DEFAULT

    return flood


def _async() -> Callable[[], None]:
    import isandbox

    async def flood() -> None:
        async with isandbox.create_sandbox("seccomp") as sandbox:
            result = await sandbox.exec(_FLOOD)
        assert result.ok
        assert result.omitted.stdout == BYTES - MAX_OUTPUT_DEFAULT

    return lambda: asyncio.run(flood())


def _pipe() -> Callable[[], None]:
    def flood() -> None:
        buffer = bytearray(65_536)
        left = BYTES
        with subprocess.Popen(_FLOOD, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdout is not None
            while count := process.stdout.readinto(buffer):  # type: ignore[attr-defined]
                left -= count
        assert left == 0

    return flood


_WAYS = {"isandbox": _blocking, "isandbox async": _async, "pipe": _pipe}


def _memory(key: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise LookupError(key)


def _child(name: str) -> None:
    flood = _WAYS[name]()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts again at what is resident now
    before = _memory("VmRSS")
    start = time.perf_counter()
    flood()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "growth": _memory("VmHWM") - before}))


if __name__ == "__main__":
    _child(sys.argv[1])
