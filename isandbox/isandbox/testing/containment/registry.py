"""The list of probes. A probe is an async function of an `Arena` under ``@probe``; its docstring says what it asserts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING

from isandbox.policy import PROTECTIONS, Quotas
from isandbox.testing.containment.records import Group, Probe, Verdict

if TYPE_CHECKING:
    from isandbox.testing.containment.arena import Arena

Attempt = Callable[["Arena"], Awaitable[Verdict]]

_MODULES = ("filesystem", "processes", "resources", "interface")
_GROUPS: dict[str, Group] = {"A": "filesystem", "B": "processes", "C": "resources", "F": "interface"}
_CLAIMS = {"interface", *PROTECTIONS, *(f"quotas.{field.name}" for field in fields(Quotas))}
_probes: dict[str, Probe] = {}


def probe(id: str, title: str, *, claim: str, timeout: float = 60.0) -> Callable[[Attempt], Attempt]:
    """Enter a function into the list. The letter of ``id`` is its group; ids are the catalogue's own, with a suffix
    (``B12-program``) where one entry takes several probes.
    """
    if id in _probes:
        raise ValueError(f"two probes are called {id}")
    if id[0] not in _GROUPS or claim not in _CLAIMS:
        raise ValueError(f"{id}, {claim!r}: no such group or claim, so it would never be tried")

    def enter(attempt: Attempt) -> Attempt:
        _probes[id] = Probe(id, title, _GROUPS[id[0]], claim, attempt, timeout)
        return attempt

    return enter


def all_probes() -> tuple[Probe, ...]:
    """Every shipped probe, by id."""
    for name in _MODULES:
        import_module(f"isandbox.testing.containment.{name}")
    return tuple(sorted(_probes.values(), key=lambda one: one.id))
