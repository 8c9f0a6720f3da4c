"""Group A of the containment catalogue against the project's own backends, and against nothing at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from isandbox import ExecResult
from isandbox.policy import Capabilities
from isandbox.testing.containment import BackendTarget, Probe, all_probes, run_probe

PROBES = [one for one in all_probes() if one.group == "filesystem"]
CLAIMED_BY_LOCAL = ("A04-inherited", "A23")

# What does not hold, and why a user would accept that. Nothing else may.
EXCEPTIONS = {
    ("seccomp", "A09"): "to deny a name that is not there is refused when the sandbox is made",
    ("seccomp", "A26-mounted"): "declared among the weaknesses",
}
# What a machine may not have, and how the probe's own words for it begin.
NOTHING_TO_ATTACK = {
    "A14-open": "this host has none of the devices that are tried",  # a build container
    "A17-place": "commands are in no control group of the host",
    "A18-name": "the host is called ",  # what says nothing
}


async def held(probe: Probe, type_: str) -> None:
    target = BackendTarget(type_)
    await target.look()
    found = await run_probe(probe, target)
    if found.outcome == "VACUOUS" and found.detail.startswith(NOTHING_TO_ATTACK.get(probe.id, "-")):
        pytest.skip(found.detail)
    denies = target.capabilities.policy("workspace.deny").kind != "unsupported"
    excepted = (type_, probe.id) in EXCEPTIONS or (probe.id == "A08-deny" and not denies)
    assert found.outcome in (("NOT-PROVIDED",) if excepted else ("BLOCKED", "CONTAINED")), found
    assert set(found.figures.values()) <= {0}


@pytest.mark.native
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.id)
async def test_seccomp_holds(probe: Probe) -> None:
    """Each attack on files, devices, kernel files, sockets and descriptors is refused or stays inside, as root and as a user."""
    await held(probe, "seccomp")


@pytest.mark.parametrize("probe", [one for one in PROBES if one.id in CLAIMED_BY_LOCAL], ids=lambda probe: probe.id)
async def test_local_holds_what_it_claims(probe: Probe) -> None:
    """Descriptors and environment of the host are not inherited by a plain process either."""
    await held(probe, "local")


def test_the_exceptions_are_current() -> None:
    """The closed tables name probes that there are."""
    ids = {one.id for one in PROBES}
    assert {probe for _, probe in EXCEPTIONS} <= ids
    assert {*CLAIMED_BY_LOCAL, *NOTHING_TO_ATTACK} <= ids


class Careless:
    """A program that is started with all that this process has."""

    name = "careless"
    capabilities = Capabilities(isolation="none", protections=frozenset({"descriptors", "environment"}))

    @asynccontextmanager
    async def create(self, **options: Any) -> AsyncIterator[Careless]:
        yield self

    async def exec(self, command: list[str], /, **options: Any) -> ExecResult:
        # Only ever the two programs that look at themselves: descriptors and variables of their own.
        process = await asyncio.create_subprocess_exec(
            *command, close_fds=False, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        return ExecResult(process.returncode or 0, stdout_bytes=out, stderr_bytes=err)


@pytest.mark.parametrize("id", CLAIMED_BY_LOCAL)
async def test_what_is_inherited_is_found(id: str) -> None:
    """Where a program is started carelessly, its descriptors and its environment are a leak."""
    (probe,) = [one for one in PROBES if one.id == id]
    found = await run_probe(probe, Careless())
    assert found.outcome == "LEAK"
    assert found.figures.get("inherited_descriptors", 500) > 300
