"""What a backend says of itself: how it isolates, and per quota whether and how it is enforced."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from isandbox.errors import ConfigurationError
from isandbox.policy.protections import PROTECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

Isolation = Literal["none", "unknown", "os", "container", "userkernel", "vm"]

# "unknown" fails every minimum: it is what a remote of unverified strength reports.
LADDER = ("none", "os", "container", "userkernel", "vm")


@dataclass(frozen=True, slots=True)
class Enforcement:
    """How one quota or policy is held.

    ``kernel``: the kernel refuses what is over it. ``watched``: looked at every ``period`` seconds, so it can be overshot
    by what happens in between. ``unsupported``: asking for it is refused, with ``instead`` as the way out.
    """

    kind: Literal["kernel", "watched", "unsupported"]
    note: str = ""
    period: float | None = None
    instead: str = ""
    told: Literal["", "counted", "looked", "exit"] = ""
    """How an `ExecResult` learns that a command met the limit. ``counted``: the kernel counts what it refuses, and none is
    missed. ``looked``: seen when the limit is used up at one of the looks, 50 ms apart, or at the command's end. ``exit``:
    seen when the command's own process dies of it, or one that it left behind. Empty: it does not, or the command ends by it.
    """


KERNEL = Enforcement("kernel")


def unsupported(instead: str) -> Enforcement:
    """Not enforced here: asking for it is an `UnsupportedError` that ends with ``instead``."""
    return Enforcement("unsupported", instead=instead)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The record that a backend is held to by the contract suite.

    ``quotas`` and ``policies`` map names to `Enforcement`; a name that is not there is unsupported. ``verbs`` are the
    optional verbs (``pause``, ``snapshot``, ...) that work; ``detach`` stands for ``detached=`` with all that finds such a sandbox
    again, ``lifetime`` for ``lifetime=`` and ``idle_timeout=``, ``renew`` for a lifetime that can be prolonged. ``weaknesses`` are
    sentences for people. ``protections``: what code inside is kept from, in the words of `Protection`; ``isandbox audit`` tries
    each.
    """

    isolation: Isolation
    quotas: Mapping[str, Enforcement] = field(default_factory=dict)
    policies: Mapping[str, Enforcement] = field(default_factory=dict)
    verbs: frozenset[str] = frozenset()
    weaknesses: tuple[str, ...] = ()
    protections: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "quotas", MappingProxyType(dict(self.quotas)))
        object.__setattr__(self, "policies", MappingProxyType(dict(self.policies)))
        if unknown := self.protections - PROTECTIONS:
            raise ConfigurationError(f"protections: {', '.join(sorted(unknown))}: no such word")

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy does not pickle, and this record travels inside `SandboxInfo`.
        return (
            Capabilities,
            (self.isolation, dict(self.quotas), dict(self.policies), self.verbs, self.weaknesses, self.protections),
        )

    def quota(self, name: str) -> Enforcement:
        return self.quotas.get(name, unsupported("leave it out"))

    def policy(self, name: str) -> Enforcement:
        return self.policies.get(name, unsupported("leave it out"))


def meets(isolation: Isolation, minimum: Isolation) -> bool:
    """Whether ``isolation`` is at least ``minimum`` on the ladder none < os < container < userkernel < vm."""
    if minimum not in LADDER:
        raise ConfigurationError(f"min_isolation: one of {', '.join(LADDER)}, not {minimum!r}")
    if minimum == "none":
        return True
    return isolation in LADDER and LADDER.index(isolation) >= LADDER.index(minimum)
