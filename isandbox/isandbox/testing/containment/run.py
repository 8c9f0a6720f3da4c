"""Run probes against a target: each in an arena of its own, with the host looked at before and after."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from isandbox.errors import SandboxError, UnsupportedError
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.host import HostState, changes
from isandbox.testing.containment.inside import UnusableAnswerError
from isandbox.testing.containment.judge import shown
from isandbox.testing.containment.records import Finding, Probe, Verdict

if TYPE_CHECKING:
    from isandbox.testing.containment.arena import Target


async def run_probe(probe: Probe, target: Target, *, thorough: bool = False) -> Finding:
    """One probe; ``thorough`` takes long, and tries what depends on chance more often. What the target does not claim is not tried: where nothing stops an attack, it would really do what it tries.

    Cancelled, it closes the probe's sandboxes first.
    """
    if not probe.claimed_by(target.capabilities):
        return _finding(probe, Verdict("NOT-PROVIDED", detail=f"{target.name} does not claim {probe.claim}"))
    gc.collect()
    async with AsyncExitStack() as outer:
        before = HostState.now()
        async with AsyncExitStack() as stack:
            arena = Arena(target, stack, outer, thorough=thorough)
            verdict = await _attempt(probe, arena, probe.timeout * (10 if thorough else 1))
        return _finding(probe, _with_host(verdict, arena, before))


async def audit(target: Target, probes: Iterable[Probe]) -> list[Finding]:
    """All of them, one after the other."""
    return [await run_probe(probe, target) for probe in probes]


async def _attempt(probe: Probe, arena: Arena, seconds: float) -> Verdict:
    try:
        async with asyncio.timeout(seconds):
            return await probe.attempt(arena)
    except TimeoutError:
        return Verdict("LEAK", detail=f"no answer within {seconds:g} s")
    except UnsupportedError as error:
        return Verdict("NOT-PROVIDED", detail=shown(str(error)))
    except UnusableAnswerError as error:
        return Verdict("VACUOUS", detail=shown(str(error)))
    except (SandboxError, OSError) as error:  # what ends the sandbox, or has no answer that the probe knows, was not held
        return Verdict("LEAK", detail=shown(f"{type(error).__name__}: {error}"))


def _with_host(verdict: Verdict, arena: Arena, before: HostState) -> Verdict:
    """A canary that came out, or a host that changed, is a leak whatever else was found."""
    if (canary := arena.leaked()) is not None:
        return Verdict("LEAK", detail=shown(f"{canary} came back"), figures=verdict.figures)
    gc.collect()
    changed = [*changes(before, HostState.now()), *(f"planted: {name}" for name in arena.changed())]
    if changed:
        return Verdict("LEAK", detail=shown(["the host changed", *changed]), figures=verdict.figures)
    return verdict


def _finding(probe: Probe, verdict: Verdict) -> Finding:
    return Finding(
        probe.id, probe.title, probe.group, verdict.outcome, verdict.mechanism, shown(verdict.detail), dict(verdict.figures)
    )
