"""Descriptors: of a command, and of the host process that runs it."""

from __future__ import annotations

import asyncio
import contextlib

import psutil

from isandbox.policy import Quotas
from isandbox.testing.containment.arena import Arena, Box
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.inside import parse
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.resources.quota import holder, tells, until_told

_OPEN = """
import resource
kept = []
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
except (ValueError, OSError):
    pass
try:
    for _ in range(count - 8):
        kept.append(os.open("/dev/null", os.O_RDONLY))
    out["more than the quota"] = "ok"
except OSError as error:
    out["more than the quota"] = word(error.errno)
controls["a few"] = "ok" if len(kept) > 16 else str(len(kept))
time.sleep(hold)
for fd in kept:
    os.close(fd)
"""


# The kernel's own answer, and those of who stands between it and the program.
_REFUSED = ("EMFILE", "EACCES", "EPERM")


@probe("C07", "Descriptors end at their quota, inside", claim="quotas.open_files")
async def too_many_open(arena: Arena) -> Verdict:
    """Of 64 descriptors there is no 65th, also after a try to raise the limit; it is told, and is no fault."""
    box = await arena.create(quotas=Quotas(open_files=64))
    result = await until_told(arena, box, "open_files", lambda hold: arena.run(_OPEN, box=box, count=300, hold=hold))
    checks = Checks()
    checks.control("the program ran", result.exit_code == 0, result.stderr[-300:])
    answers, controls = parse(result.stdout_bytes) if result.exit_code == 0 else ({}, {})
    checks.control("a few", controls.get("a few") == "ok", controls)
    checks.hold("300 of 64 are refused", answers.get("more than the quota") in _REFUSED, answers)
    checks.hold("no fault", result.fault is None, result.fault)
    checks.hold("the limit is told", tells(arena, box, "open_files", result), sorted(result.limits_hit))
    return checks.verdict("BLOCKED", holder(arena, box, "open_files"))


@probe("C07-host", "The host process loses no descriptor to a command", claim="interface")
async def none_is_lost(arena: Arena) -> Verdict:
    """Commands that fail, do not start, time out and are cancelled leave as many descriptors open as there were."""
    box = await arena.box()
    await _four_ends(arena, box)
    process, checks = psutil.Process(), Checks()
    before = process.num_fds()
    ends = [await _four_ends(arena, box) for _ in range(arena.rounds(6, 75))]
    checks.control("each ended as it was meant to", set(ends) == {(3, 127, "timeout", True)}, set(ends))
    after = process.num_fds()
    checks.hold("none is left open", after <= before + 2, f"{before} before, {after} after")
    return checks.verdict("CONTAINED", "closed with their command")


async def _four_ends(arena: Arena, box: Box) -> tuple[int, int, str | None, bool]:
    failed = await box.exec(["sh", "-c", "exit 3"], timeout=20.0)
    missing = await box.exec(["/no/such/program"], timeout=20.0)
    late = await box.exec(["sleep", "20"], timeout=0.02)
    task = asyncio.create_task(box.exec(["sleep", "20"], timeout=30.0))
    await asyncio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    for result in (failed, missing, late):
        arena.saw(result)
    return failed.exit_code, missing.exit_code, late.fault, task.cancelled()
