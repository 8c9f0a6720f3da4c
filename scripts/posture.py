"""What a command of a backend is on this machine, for this user, as tests/security/posture keeps it: posture.py [TYPE] > FILE."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

from isandbox.testing.containment import Arena, BackendTarget
from isandbox.testing.containment.processes.posture import as_text, snapshot


async def read(type_: str) -> str:
    async with AsyncExitStack() as outer, AsyncExitStack() as stack:
        arena = Arena(BackendTarget(type_), stack, outer)
        return as_text(await snapshot(arena, await arena.box()))


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(read(sys.argv[1] if len(sys.argv) > 1 else "seccomp")))
