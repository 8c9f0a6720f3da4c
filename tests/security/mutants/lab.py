"""Putting mutants to probes."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from isandbox_mutants import later
from isandbox_mutants.build import Workshop
from isandbox_mutants.frame import Mutant, safe

from isandbox.errors import SandboxError
from isandbox.factory import create_sandbox
from isandbox.testing.containment import Arena, BackendTarget, Finding, Outcome, Probe, Verdict, all_probes, run_probe
from isandbox.testing.containment.processes.posture import snapshot
from isandbox_backends._shared import start
from isandbox_backends._shared.helper import HelperProgram
from isandbox_backends._shared.plan import Record
from isandbox_backends.seccomp import backend

_A_GROUP = 54322
_A_PRIORITY = 30
_PRIORITIES = (resource.RLIMIT_NICE, resource.RLIMIT_RTPRIO)
RECORD = "B09-record"
HELD: tuple[Outcome, ...] = ("BLOCKED", "CONTAINED")


@dataclass(frozen=True)
class Trial:
    """``killer``: the probe that turned red. ``refused``: why the sandbox did not start."""

    mutant: str
    killer: str = ""
    refused: str = ""
    tried: tuple[Finding, ...] = ()

    @property
    def found(self) -> str:
        """What the probes that were red said."""
        return "; ".join(one.detail for one in self.tried if one.outcome == "LEAK")

    def __str__(self) -> str:
        if self.killer:
            return f"{self.mutant}: killed by {self.killer}"
        if self.refused:
            return f"{self.mutant}: refused at start: {self.refused}"
        seen = "; ".join(f"{one.probe} {one.outcome} {one.mechanism or one.detail}" for one in self.tried)
        return f"{self.mutant}: SURVIVED ({seen or 'no probe tried'})"


@dataclass
class Lab:
    """``intact``: what the probes find in the product as it is, asked once."""

    workshop: Workshop
    intact: dict[str, Finding] = field(default_factory=dict)
    record: dict[str, str] = field(default_factory=dict)

    async def try_out(self, mutant: Mutant, probes: Iterable[str], *, all_of_them: bool = False) -> Trial:
        """The mutant against these probes, until one turns red: one that holds in the product, and red twice, for what others
        do on this machine at the same moment may look like a change of the host.
        """
        by_id = {probe.id: probe for probe in (*all_probes(), later.probe, self._posture())}
        chosen = [by_id[name] for name in probes]
        with generous_host():
            for probe in chosen:
                await self._intact(probe)
        with self.mutated(mutant, must_alter=bool(chosen)), _believing(), generous_host():
            if (refused := await _refused()) is not None:
                return Trial(mutant.name, refused=refused)
            killers, tried = [], []
            for probe in chosen:
                found = await _found(probe)
                tried.append(found)
                if (
                    self.intact[probe.id].outcome in HELD
                    and found.outcome == "LEAK"
                    and (await _found(probe)).outcome == "LEAK"
                ):
                    killers.append(probe.id)
                    if not all_of_them:
                        break
        return Trial(mutant.name, killer=" ".join(killers), tried=tuple(tried))

    def _posture(self) -> Probe:
        """B09 to the letter: all that a command can say of what it is, and the host of it, equals the product's."""

        async def attempt(arena: Arena) -> Verdict:
            found = await snapshot(arena, await arena.box())
            self.record = self.record or found
            names = sorted({*found, *self.record})
            drift = [f"{name}: {found.get(name)}" for name in names if found.get(name) != self.record.get(name)]
            return Verdict("LEAK", detail="; ".join(drift)) if drift else Verdict("BLOCKED", "as recorded")

        return Probe(RECORD, "A command is what the record says", "processes", "privileges", attempt)

    async def _intact(self, probe: Probe) -> None:
        if probe.id not in self.intact:
            self.intact[probe.id] = await _found(probe)

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant, *, must_alter: bool = False) -> Iterator[None]:
        """Every sandbox of the body is the mutant. ``must_alter``: raises `AssertionError` in the end when no plan was altered, as
        when nobody asked for the quota that the mutant does not hold.
        """
        altered: list[bool] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "compile_plan", _edited(mutant, altered))
            if mutant.source:
                program = HelperProgram(str(self.workshop.helper(mutant.source)))
                patch.setattr(start, "_native", lambda: program)
            for where, change in mutant.patches:
                module, _, attribute = where.partition(":")
                owner = importlib.import_module(module)
                patch.setattr(owner, attribute, change(getattr(owner, attribute)))
            yield
        assert not must_alter or not mutant.edits or any(altered), f"{mutant.name}: no plan was altered"


async def at_start(lab: Lab, mutant: Mutant) -> str:
    """Why such a sandbox, with all its defaults, does not start when everything that looks at itself is in place, or nothing."""
    with lab.mutated(mutant), generous_host():
        return await _refused() or ""


@contextlib.contextmanager
def generous_host() -> Iterator[None]:
    """As root: a host process with a group more, and that may have better priorities, so that there is something to take away."""
    if os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    limits = {each: resource.getrlimit(each) for each in _PRIORITIES if can_raise_limits()}
    os.setgroups([*groups, _A_GROUP])
    for each in limits:
        resource.setrlimit(each, (_A_PRIORITY, _A_PRIORITY))
    try:
        yield
    finally:
        os.setgroups(groups)
        for each, before in limits.items():
            resource.setrlimit(each, before)


def can_raise_limits() -> bool:
    """CAP_SYS_RESOURCE of linux/capability.h, which a container's root may lack."""
    effective = Path("/proc/self/status").read_text("ascii").partition("CapEff:")[2].split()[0]
    return bool(int(effective, 16) >> 24 & 1)


def may_have_priorities() -> bool:
    """Whether the host's process may give itself better ones, so that there is something to forbid."""
    return can_raise_limits() or all(resource.getrlimit(each)[1] != 0 for each in _PRIORITIES)


@contextlib.contextmanager
def _believing() -> Iterator[None]:
    """The host takes the helper's word: what the start would find is left to the probes."""
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(backend, "verified"):
            patch.setattr(backend, "verified", lambda *_: {})
        yield


def _edited(mutant: Mutant, altered: list[bool]) -> Any:
    compile_plan = backend.compile_plan

    def compile_mutant(*args: Any, **options: Any) -> list[Record]:
        records = before = compile_plan(*args, **options)
        for edit in mutant.edits:
            records = edit(records)
        safe(records)
        altered.append(records != before)
        return records

    return compile_mutant


async def _refused() -> str | None:
    try:
        async with create_sandbox("seccomp") as sandbox:
            done = await sandbox.exec(["true"])
    except SandboxError as error:
        return str(error)
    return done.start_error


async def _found(probe: Probe) -> Finding:
    target = BackendTarget("seccomp")
    try:
        await target.look()
        return await run_probe(probe, target)
    except SandboxError as error:  # a broken sandbox may break in any way; that is no finding of the probe
        return Finding(probe.id, probe.title, probe.group, "VACUOUS", detail=f"{type(error).__name__}: {error}"[:300])
