"""How long does a command take in a sandbox that lives?"""

from __future__ import annotations

import asyncio
import subprocess
import time

import isandbox
import isandbox.sync
from benchmarks.measure import Answer, interleave, timed

ROUNDS = 400
BAR = 1.60
_TRUE = ["/bin/true"]


def run(rounds: int | None = None) -> Answer:
    with asyncio.Runner() as runner, isandbox.sync.create_sandbox("seccomp") as blocking:
        sandbox = runner.run(_create())

        async def execute() -> float:
            start = time.perf_counter()
            assert (await sandbox.exec(_TRUE)).ok
            return (time.perf_counter() - start) * 1e3

        async def spawn() -> float:
            start = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                *_TRUE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            await process.communicate()
            return (time.perf_counter() - start) * 1e3

        cases = {
            "isandbox": timed(lambda: blocking.exec(_TRUE).check()),
            "isandbox async": lambda: runner.run(execute()),
            "subprocess.run": timed(lambda: subprocess.run(_TRUE, capture_output=True, check=True)),
            "asyncio subprocess": lambda: runner.run(spawn()),
        }
        try:
            answer = Answer("exec", "ms", interleave(cases, rounds or ROUNDS))
        finally:
            runner.run(sandbox.close())
    answer.compare("isandbox", "subprocess.run", BAR)
    return answer


async def _create() -> isandbox.ISandbox:
    return await isandbox.create_sandbox("seccomp")
