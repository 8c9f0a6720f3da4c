"""Run probes against a target: each in an arena of its own, with the host looked at before and after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from isandbox.errors import SandboxError, SandboxLostError, UnsupportedError
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.host import HostState, others_may, settled
from isandbox.testing.containment.inside import UnusableAnswerError
from isandbox.testing.containment.judge import shown
from isandbox.testing.containment.records import Finding, Probe, Verdict

if TYPE_CHECKING:
    from isandbox.testing.containment.arena import Target


async def run_probe(probe: Probe, target: Target, *, thorough: bool = False) -> Finding:
    """One probe. What the target does not claim is not tried: where nothing stops an attack, it would really do what it tries.

    ``thorough``: with ten times its time, and more rounds of what depends on chance. Where nothing is wrong but that there
    are new mounts on the machine, which another program may have made, it is tried once more.
    Errors of the sandbox and the system become a finding; any other is a fault of the probe itself and comes out. Cancelled, it
    closes the probe's sandboxes first.
    """
    if not probe.claimed_by(target.capabilities):
        return _finding(probe, Verdict("NOT-PROVIDED", detail=f"{target.name} does not claim {probe.claim}"))
    verdict, changed = await _once(probe, target, thorough=thorough)
    if verdict.outcome != "LEAK" and changed and others_may(changed):
        verdict, changed = await _once(probe, target, thorough=thorough)
    if changed:
        also = [verdict.detail] if verdict.outcome == "LEAK" else []
        verdict = Verdict("LEAK", verdict.mechanism, shown(["the host changed", *changed, *also]), verdict.figures)
    return _finding(probe, verdict)


async def _once(probe: Probe, target: Target, *, thorough: bool) -> tuple[Verdict, list[str]]:
    """The verdict, and what is other on the host than before."""
    async with AsyncExitStack() as outer:
        before = HostState.now()
        stack = AsyncExitStack()
        outer.push_async_callback(stack.aclose)  # when it is cancelled before it is closed below
        arena = Arena(target, stack, outer, thorough=thorough)
        seconds = probe.timeout * (10 if thorough else 1)
        verdict = await _guarded(partial(probe.attempt, arena), arena, seconds, "no answer")
        closed = await _guarded(partial(_close, stack), arena, seconds, "not closed")
        # A sandbox that did not end well spoils what was found, unless that was the worst already.
        worst = verdict if closed is _CLOSED or verdict.outcome == "LEAK" else closed
        changed = [*await settled(before), *(f"planted: {name}" for name in arena.changed())]
        return _with_canaries(worst, arena), changed


async def audit(target: Target, probes: Iterable[Probe]) -> list[Finding]:
    """All of them, one after the other."""
    return [await run_probe(probe, target) for probe in probes]


_CLOSED = Verdict("CONTAINED")


async def _close(stack: AsyncExitStack) -> Verdict:
    await stack.aclose()
    return _CLOSED


async def _guarded(call: Callable[[], Awaitable[Verdict]], arena: Arena, seconds: float, late: str) -> Verdict:
    """What ``call`` says, or what its error means."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await call()
    except UnsupportedError as error:
        arena.saw(error)
        return Verdict("NOT-PROVIDED", detail=shown(str(error)))
    except (UnusableAnswerError, SandboxError, OSError) as error:
        if limit.expired():
            return Verdict("LEAK", detail=f"{late} within {seconds:g} s")
        arena.saw(error)
        kind = "" if isinstance(error, UnusableAnswerError) else f"{type(error).__name__}: "
        # An attack that ends the sandbox, or to which it has no answer that the probe knows, was not held. Where there was no
        # sandbox yet, or the program inside fell over, no attack took place.
        not_held = isinstance(error, SandboxLostError) or bool(arena.made and kind)
        return Verdict("LEAK" if not_held else "VACUOUS", detail=shown(f"{kind}{error}"))


def _with_canaries(verdict: Verdict, arena: Arena) -> Verdict:
    """One that came out is a leak whatever else was found."""
    if (canary := arena.leaked()) is None:
        return verdict
    also = [verdict.detail] if verdict.outcome == "LEAK" else []
    return Verdict("LEAK", verdict.mechanism, shown([f"{canary} came back", *also]), verdict.figures)


def _finding(probe: Probe, verdict: Verdict) -> Finding:
    return Finding(
        probe.id, probe.title, probe.group, verdict.outcome, verdict.mechanism, shown(verdict.detail), dict(verdict.figures)
    )
