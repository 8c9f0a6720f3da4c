"""The containment probes of the port itself, on our own backends."""

from __future__ import annotations

import pytest

from isandbox.testing.containment import BackendTarget, Finding, Probe, all_probes, run_probe

PROBES = [one for one in all_probes() if one.group == "interface"]
HELD = {"BLOCKED", "CONTAINED"}

# What is not held, by backend and probe. Nothing else may be missing, and nothing here may be held.
NO_CLAIM = "not in the backend's record: the host's files are open"
MISSING = {("local", "F01"): NO_CLAIM, ("local", "F05"): NO_CLAIM, ("local", "F15"): NO_CLAIM}


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
    if (backend, probe.id) in MISSING:
        assert finding.outcome == "NOT-PROVIDED", finding
    else:
        assert finding.outcome in HELD, finding
        assert finding.mechanism


def test_the_table_names_probes() -> None:
    """A row for a probe that is gone, or without a reason, is none."""
    assert {probe for _, probe in MISSING} <= {one.id for one in PROBES}
    assert all(MISSING.values())


@pytest.mark.full
@pytest.mark.native
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("id", ["F05", "F19", "F22"])
async def test_it_is_held_for_long(id: str) -> None:
    """The long form: 26,000 calls while a directory and a link change places, 500 ids, 60,000 names."""
    (probe,) = (one for one in PROBES if one.id == id)
    finding = await look("seccomp", probe, thorough=True)
    assert finding.outcome in HELD, finding
