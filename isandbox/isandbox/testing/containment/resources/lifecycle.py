"""Many sandboxes, ended in every way: the host is as before."""

from __future__ import annotations

import asyncio
import contextlib

from isandbox.errors import SandboxError
from isandbox.sandbox import ISandbox
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

WORKERS = 4


@probe("C22", "Many sandboxes leave nothing behind", claim="interface")
async def many(arena: Arena) -> Verdict:
    """Made, used and closed by several at once, some cancelled at any point: each has its own id, and the host is as before.

    That it is so is looked at by the frame, after this: processes, mounts, groups, descriptors, threads, listeners.
    """
    total = arena.rounds(24, 200)
    waiting = list(range(total))
    ids: list[str] = []
    checks = Checks()
    ended: list[str] = []

    async def work() -> None:
        while waiting:
            number = waiting.pop()
            task = asyncio.create_task(_one(arena, ids))
            if number % 5 == 0:  # at a point of its life that grows with the number
                await asyncio.sleep(0.0002 * number)
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                ended.append(await task)

    await asyncio.gather(*(work() for _ in range(WORKERS)))
    checks.control("most of them ran", len(ended) >= total * 3 // 5, f"{len(ended)} of {total}")
    checks.hold("none failed", set(ended) <= {"ran"}, sorted(set(ended)))
    checks.hold("no id came twice", len(ids) == len(set(ids)), len(ids))
    return checks.verdict("CONTAINED", "closed with its owner", f"{total} sandboxes")


async def _one(arena: Arena, ids: list[str]) -> str:
    try:
        async with arena.target.create() as box:
            if isinstance(box, ISandbox):
                ids.append(box.info.id)
            result = await box.exec(["sh", "-c", "sleep 20 & echo ran"], timeout=30.0)
            arena.saw(result)
            return str(result.stdout.strip())
    except SandboxError as error:
        return f"{type(error).__name__}: {error}"
