"""The probes of the groups C and F on a target that can only run commands, as somebody else's tool can."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from isandbox.records import ExecResult
from isandbox.testing.containment import BackendTarget, Probe, all_probes, run_probe

pytestmark = [pytest.mark.native, pytest.mark.full]

PROBES = [one for one in all_probes() if one.group in {"resources", "interface"}]
# What a command alone can show.
BY_COMMANDS = {
    *(
        "C01",
        "C02",
        "C03-scratch",
        "C05",
        "C05-names",
        "C05-size",
        "C07",
        "C07-host",
        "C08",
        "C08-full",
        "C10",
        "C10-time",
        "C10-widen",
    ),
    *("C11", "C11-quota", "C13", "C14", "C15", "C16", "C17", "C18", "C20", "C22", "F15", "F23"),
}


class Bare:
    """One method of a sandbox."""

    def __init__(self, sandbox: Any) -> None:
        self._sandbox = sandbox

    async def exec(self, command: Any, /, **options: Any) -> ExecResult:
        result: ExecResult = await self._sandbox.exec(command, **options)
        return result


class BareTarget(BackendTarget):
    @asynccontextmanager
    async def create(self, **options: Any) -> AsyncIterator[Any]:
        async with super().create(**options) as sandbox:
            yield Bare(sandbox)


@pytest.mark.parametrize("probe", PROBES, ids=lambda one: one.id)
async def test_it_gives_an_outcome(probe: Probe) -> None:
    """Held by commands alone where they can show it, else not provided; never a leak and never a failure of the probe."""
    whole, bare = BackendTarget("seccomp"), BareTarget("seccomp")
    await whole.look()
    bare._capabilities = whole.capabilities
    finding = await run_probe(probe, bare)
    held = {"BLOCKED", "CONTAINED"} if probe.id in BY_COMMANDS else {"NOT-PROVIDED"}
    assert finding.outcome in held, finding
