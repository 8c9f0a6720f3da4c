"""How long does a whole sandbox take: create, one command, close?"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING

import isandbox
import isandbox.sync
from benchmarks.floor import build_floor
from benchmarks.measure import Answer, interleave, timed

if TYPE_CHECKING:
    from benchmarks.measure import Case

ROUNDS = 150
BAR = 0.80
TRUE = ["/bin/true"]
BWRAP = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", *TRUE]
_FIREJAIL = ["firejail", "--quiet", "--noprofile", "--private-dev", "--net=none", *TRUE]
_FIREJAIL_EVERY = 10


def run(rounds: int | None = None) -> Answer:
    with tempfile.TemporaryDirectory() as directory, asyncio.Runner() as runner:
        cases: dict[str, Case] = {
            "isandbox": timed(_blocking),
            "isandbox async": lambda: runner.run(_timed_async()),
            "subprocess.run": timed(partial(_succeed, TRUE)),
        }
        notes = []
        for name, command in {"bwrap": BWRAP, "firejail": _FIREJAIL, "floor": [build_floor(directory) or "cc"]}.items():
            if shutil.which(command[0]) is None:
                notes.append(f"{name}: {command[0]} is not installed")
            elif (failure := _failure(command)) is not None:
                notes.append(f"{name}: left out, it {failure} here")
            else:
                cases[name] = timed(partial(_succeed, command))
        answer = Answer("start", "ms", interleave(cases, rounds or ROUNDS, every={"firejail": _FIREJAIL_EVERY}), notes=notes)
    if "bwrap" in cases:
        answer.compare("isandbox", "bwrap", BAR)
    return answer


def _failure(command: list[str]) -> str | None:
    try:
        status = subprocess.run(command, check=False, timeout=20, stdin=subprocess.DEVNULL, capture_output=True).returncode
    except subprocess.TimeoutExpired:
        return "does not end"
    return f"exits with {status}" if status else None


def _succeed(command: list[str]) -> None:
    subprocess.run(command, check=True)


def _blocking() -> None:
    with isandbox.sync.create_sandbox("seccomp") as sandbox:
        assert sandbox.exec(TRUE).ok


async def _timed_async() -> float:
    start = time.perf_counter()
    async with isandbox.create_sandbox("seccomp") as sandbox:
        assert (await sandbox.exec(TRUE)).ok
    return (time.perf_counter() - start) * 1e3
