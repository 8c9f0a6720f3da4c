"""Group B of the containment catalogue against the project's own backends, and against sandboxes that do not hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isandbox.policy import PROTECTIONS, Capabilities
from isandbox.testing.containment import Arena, BackendTarget, Finding, all_probes, run_probe
from isandbox.testing.containment.processes.posture import as_text, snapshot
from isandbox_backends._shared.limits import RLIMIT_CORE
from isandbox_backends._shared.plan import Hostname, ModeRecord, Record, Rlimit, Sysctl
from isandbox_backends.seccomp import backend, layers
from isandbox_backends.seccomp.subordinate import Grant, find_grant

pytestmark = pytest.mark.native

ALL = {probe.id: probe for probe in all_probes()}
PROBES = {name: probe for name, probe in ALL.items() if probe.group == "processes"}
# The probes that count something which may only fall.
COUNTING = ("A16", "A23", "B14-reachable", "B28")
CLAIMED_BY_LOCAL = ("B27",)
HERE = Path(__file__).parent
USER_KIND = "root" if os.geteuid() == 0 else "user"
# Commands of a user with subordinate ids have ids of their own.
POSTURE_OF = "subordinate" if USER_KIND == "user" and isinstance(find_grant(), Grant) else USER_KIND

# Probes that may prove nothing, and what about the machine makes them so. Nothing else may.
MAY_BE_VACUOUS = {
    "B11": "a kernel without a 32-bit entry, or aarch64, where a process has one way in",
    "B12": "a kernel without x32; tests/backends/seccomp/test_filter.py tries those numbers on the program itself",
    "B16": "a host that is itself kept from keyrings, such as a build container",
}


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    """What has been run on `seccomp` in this module, so that nothing is run twice."""
    return {}


async def seccomp() -> BackendTarget:
    target = BackendTarget("seccomp")
    await target.look()
    return target


async def found(findings: dict[str, Finding], name: str) -> Finding:
    if name not in findings:
        findings[name] = await run_probe(ALL[name], await seccomp())
    return findings[name]


@pytest.mark.parametrize("name", sorted(PROBES))
async def test_seccomp_holds(findings: dict[str, Finding], name: str) -> None:
    """Each attack on processes, namespaces and the kernel's calls is refused or stays inside, as root and as a user."""
    finding = await found(findings, name)
    if finding.outcome == "VACUOUS" and name in MAY_BE_VACUOUS:
        pytest.skip(f"{MAY_BE_VACUOUS[name]}: {finding.detail}")
    assert finding.outcome in ("BLOCKED", "CONTAINED"), finding
    assert finding.mechanism


@pytest.mark.parametrize("name", CLAIMED_BY_LOCAL)
async def test_local_holds_what_it_claims(name: str) -> None:
    """A plain process refuses what it cannot enforce."""
    target = BackendTarget("local")
    await target.look()
    assert (await run_probe(PROBES[name], target)).outcome == "BLOCKED"


def integers() -> dict[str, int]:
    recorded: dict[str, int] = json.loads((HERE / "integers.json").read_text())["seccomp"][USER_KIND]
    return recorded


async def test_the_integers_may_only_fall(findings: dict[str, Finding]) -> None:
    """Of the four numbers none is larger than recorded; where one is smaller the record must follow."""
    measured: dict[str, int] = {}
    for name in COUNTING:
        measured |= (await found(findings, name)).figures
    grown = {name: number for name, number in measured.items() if number > integers()[name]}
    assert grown == {}, f"recorded: {integers()}"
    assert measured == integers(), "one fell: write the smaller number into integers.json"


async def posture() -> dict[str, str]:
    async with AsyncExitStack() as outer, AsyncExitStack() as stack:
        arena = Arena(await seccomp(), stack, outer)
        return await snapshot(arena, await arena.box())


async def test_the_posture_is_the_recorded_one() -> None:
    """Of everything that a command is, inside and outside, nothing has changed; scripts/posture.py writes the record anew."""
    recorded = (HERE / "posture" / f"seccomp-{POSTURE_OF}.json").read_text()
    assert as_text(await posture()) == recorded


class Boastful(BackendTarget):
    """The `local` backend with a record that promises everything."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, protections=PROTECTIONS)


# Where nothing holds, these do nothing but what the victim, which is the probe's own, lets be done to it.
@pytest.mark.parametrize("name", ["B01", "B02", "B03", "B05", "B09", "B23"])
async def test_where_nothing_holds_the_attack_gets_through(name: str) -> None:
    """A sandbox that keeps nobody from the host's processes, nor from its caller's privileges, fails the probe."""
    target = Boastful("local")
    await target.look()
    finding = await run_probe(PROBES[name], target)
    assert finding.outcome == "LEAK", finding


@pytest.fixture
def alter(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Record], Record | None]], None]:
    """``alter(function)``: sandboxes whose plan has what ``function`` makes of each record; without those that become `None`."""
    compile_plan = backend.compile_plan

    def put(function: Callable[[Record], Record | None]) -> None:
        def altered(*args: Any, **more: Any) -> list[Record]:
            return [record for given in compile_plan(*args, **more) if (record := function(given)) is not None]

        monkeypatch.setattr(backend, "compile_plan", altered)
        monkeypatch.setattr(backend, "verified", layers.told)

    return put


async def test_a_change_of_the_posture_is_noticed(alter: Any) -> None:
    """A limit that is not set and a name of the machine that is another are seen, and nothing else is."""
    before = await posture()

    def changed(record: Record) -> Record | None:
        if isinstance(record, Rlimit) and record.resource == RLIMIT_CORE:
            return None
        return Hostname("elsewhere") if isinstance(record, Hostname) else record

    alter(changed)
    after = await posture()
    assert {name for name, value in after.items() if before.get(name) != value} == {"limit CORE", "hostname"}
    assert set(after) == set(before)


def without_filter(monkeypatch: pytest.MonkeyPatch, probes: Any) -> None:
    """Such a sandbox is meant to start, and to say what it lacks."""
    monkeypatch.setattr(backend, "compile_filter", probes.allow_everything)
    monkeypatch.setattr(backend, "verified", layers.told)


@pytest.mark.parametrize("name", ["B06", "B11", "B14", "B14-reachable", "B15", "B16", "B28"])
async def test_without_the_filter_the_attack_gets_through(monkeypatch: pytest.MonkeyPatch, probes: Any, name: str) -> None:
    """The filter of system calls is what holds: under one that allows everything the probe finds a leak."""
    without_filter(monkeypatch, probes)
    finding = await run_probe(PROBES[name], await seccomp())
    if finding.outcome == "VACUOUS" and name in MAY_BE_VACUOUS:
        pytest.skip(f"{MAY_BE_VACUOUS[name]}: {finding.detail}")
    assert finding.outcome == "LEAK", finding
    assert all(number > integers()[figure] for figure, number in finding.figures.items())


async def test_namespaces_have_two_layers(monkeypatch: pytest.MonkeyPatch, probes: Any, alter: Any) -> None:
    """Without the filter the sandbox's own limit of namespaces holds; without both they can be made, and the probe says so."""
    without_filter(monkeypatch, probes)
    one = await run_probe(PROBES["B08"], await seccomp())
    assert (one.outcome, one.mechanism) == ("BLOCKED", "no more namespaces allowed, no privilege")
    alter(lambda record: None if isinstance(record, Sysctl) else record)
    assert (await run_probe(PROBES["B08"], await seccomp())).outcome == "LEAK"


async def test_without_its_quota_a_crowd_is_found(alter: Any) -> None:
    """A sandbox that does not hold its quota of processes fails the probe of fork bombs."""
    alter(lambda record: replace(record, pids=0) if isinstance(record, ModeRecord) else record)
    assert (await run_probe(PROBES["B22"], await seccomp())).outcome == "LEAK"


def test_the_table_is_current() -> None:
    """Exceptions and claims name probes that there are."""
    assert {*MAY_BE_VACUOUS, *CLAIMED_BY_LOCAL} <= set(PROBES)
