"""The containment probes of resources, on our own backends."""

from __future__ import annotations

import os

import pytest

from isandbox.testing.containment import BackendTarget, Finding, Probe, all_probes, run_probe
from isandbox_backends._shared.holding import usable_controllers

PROBES = [one for one in all_probes() if one.group == "resources"]
HELD = {"BLOCKED", "CONTAINED"}

# What is not held, by backend and probe, and when that is so. Nothing else may be missing, and nothing here may be held.
NO_CLAIM = "not in the backend's record"
WATCHED = "without a control group memory is watched, and mappings are all that is seen"
ONE_CPU = "one CPU: there is no second one to take"
MISSING = {
    ("local", "C03-scratch"): (NO_CLAIM, True),
    ("local", "C03-unmapped"): (WATCHED, "memory" not in usable_controllers()),
    ("local", "C05"): (NO_CLAIM, True),
    ("local", "C05-names"): (NO_CLAIM, True),
    ("local", "C08"): (NO_CLAIM, True),
    ("local", "C08-full"): (NO_CLAIM, True),
    ("local", "C10"): (ONE_CPU, os.cpu_count() == 1),
    ("local", "C10-widen"): (NO_CLAIM, True),
    ("local", "C17"): (NO_CLAIM, True),
    ("local", "C17-counted"): (NO_CLAIM, True),
    ("seccomp", "C03-unmapped"): (WATCHED, "memory" not in usable_controllers()),
    ("seccomp", "C10"): (ONE_CPU, os.cpu_count() == 1),
    ("seccomp", "C10-widen"): (ONE_CPU, os.cpu_count() == 1),
}


async def look(name: str, probe: Probe, *, thorough: bool = False) -> Finding:
    target = BackendTarget(name)
    await target.look()
    return await run_probe(probe, target, thorough=thorough)


@pytest.mark.parametrize("probe", PROBES, ids=lambda one: one.id)
@pytest.mark.parametrize(
    "backend", [pytest.param("local", marks=pytest.mark.full), pytest.param("seccomp", marks=pytest.mark.native)]
)
async def test_it_is_held_or_its_absence_is_declared(backend: str, probe: Probe) -> None:
    """Each probe is blocked or contained, but for those of the closed table, which are not tried."""
    finding = await look(backend, probe)
    _, missing = MISSING.get((backend, probe.id), ("", False))
    if missing:
        assert finding.outcome in {"NOT-PROVIDED", "VACUOUS"}, finding
    else:
        assert finding.outcome in HELD, finding
        assert finding.mechanism


def test_the_table_names_probes() -> None:
    """A row for a probe that is gone, or without a reason, is none."""
    assert {probe for _, probe in MISSING} <= {one.id for one in PROBES}
    assert all(reason for reason, _ in MISSING.values())


@pytest.mark.full
@pytest.mark.native
@pytest.mark.timeout(900)
@pytest.mark.parametrize("id", ["C07-host", "C11", "C18", "C22"])
async def test_it_is_held_for_long(id: str) -> None:
    """The long form: 300 commands in four ways to end, a GiB of output, tens of thousands of refusals, 200 sandboxes."""
    (probe,) = (one for one in PROBES if one.id == id)
    finding = await look("seccomp", probe, thorough=True)
    assert finding.outcome in HELD, finding
