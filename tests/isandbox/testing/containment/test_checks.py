"""What becomes of promises and controls, and of a sandbox that is lost under an attack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from isandbox import SandboxLostError
from isandbox.policy import Capabilities
from isandbox.testing.containment import Arena, Verdict, run_probe
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.records import Probe


class Bare:
    """A target whose sandboxes can do nothing."""

    name = "bare"
    capabilities = Capabilities("os")

    @asynccontextmanager
    async def create(self, **options: object) -> AsyncIterator[object]:
        yield object()


@pytest.mark.parametrize(
    ("control", "promise", "outcome"),
    [(True, True, "CONTAINED"), (True, False, "LEAK"), (False, True, "VACUOUS"), (False, False, "VACUOUS")],
)
def test_a_control_comes_before_a_promise(control: bool, promise: bool, outcome: str) -> None:
    """Without its control nothing is proven; with it a broken promise is a leak, which names what was found."""
    checks = Checks()
    checks.control("the control", control, "why")
    checks.hold("the promise", promise, "what")
    verdict = checks.verdict("CONTAINED", "something")
    assert verdict.outcome == outcome
    assert ("the promise (what)" in verdict.detail) == (outcome == "LEAK")
    assert ("the control (why)" in verdict.detail) == (outcome == "VACUOUS")


def test_nothing_tried_is_vacuous() -> None:
    """Controls alone and promises alone prove nothing."""
    controls, promises = Checks(), Checks()
    controls.control("x", True)
    promises.hold("x", True)
    assert {checks.verdict("BLOCKED", "").outcome for checks in (Checks(), controls, promises)} == {"VACUOUS"}


async def test_what_needs_the_whole_port_is_not_provided_by_less() -> None:
    """A probe that needs file verbs is NOT-PROVIDED for a target that can only run commands."""

    async def attempt(arena: Arena) -> Verdict:
        await arena.sandbox()
        return Verdict("BLOCKED")

    finding = await run_probe(Probe("F00", "", "interface", "interface", attempt), Bare())
    assert (finding.outcome, "bare" in finding.detail) == ("NOT-PROVIDED", True)


async def test_a_lost_sandbox_is_a_leak() -> None:
    """An attack that ends the sandbox itself was not held."""

    async def attempt(arena: Arena) -> Verdict:
        raise SandboxLostError("it is gone")

    finding = await run_probe(Probe("F00", "", "interface", "interface", attempt), Bare())
    assert (finding.outcome, finding.detail) == ("LEAK", "SandboxLostError: it is gone")


async def test_a_thorough_run_tries_more_often() -> None:
    """Rounds are the many in a thorough run, which may also take longer, and the few else."""

    async def attempt(arena: Arena) -> Verdict:
        await asyncio.sleep(0.02)
        return Verdict("BLOCKED", detail=str(arena.rounds(3, 70)))

    probe = Probe("F00", "", "interface", "interface", attempt, timeout=0.01)
    assert (await run_probe(probe, Bare())).detail.startswith("no answer")
    assert (await run_probe(Probe("F00", "", "interface", "interface", attempt), Bare())).detail == "3"
    assert (await run_probe(Probe("F00", "", "interface", "interface", attempt), Bare(), thorough=True)).detail == "70"
