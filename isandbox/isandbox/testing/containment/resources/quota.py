"""What the probes of quotas have in common."""

from __future__ import annotations

from isandbox.policy import Enforcement
from isandbox.records import ExecResult
from isandbox.sandbox import ISandbox
from isandbox.testing.containment.arena import Arena, Box

MIB = 1 << 20


def enforcement(arena: Arena, box: Box, name: str) -> Enforcement:
    """How this very sandbox holds a quota: with one that needs a control group it may have one that others have not."""
    record = box.info.capabilities if isinstance(box, ISandbox) else arena.target.capabilities
    return record.quota(name)


def holder(arena: Arena, box: Box, name: str) -> str:
    """Who holds a quota, in the words of the sandbox's record."""
    held = enforcement(arena, box, name)
    by = "control group" if "control group" in held.note else held.kind
    return f"quota of {name.replace('_', ' ')} ({by})"


def tells(arena: Arena, box: Box, name: str, result: ExecResult) -> bool:
    """Whether the result names the limit, where the sandbox's record says that it is told."""
    return not enforcement(arena, box, name).told or name in result.limits_hit


async def alive(arena: Arena, box: Box) -> bool:
    """Whether the sandbox still runs a command."""
    result = await box.exec(["echo", "alive"], timeout=20.0)
    arena.saw(result)
    return result.stdout == "alive\n" and result.fault is None
