"""Who holds each quota of a sandbox: the kernel by a control group where there is one, else by rlimits, affinity and a
watcher. One place, so that the plan, the group and the capability record cannot tell three different stories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from isandbox.errors import BackendUnavailableError, ConfigurationError, SandboxError, UnsupportedError
from isandbox.policy import Enforcement
from isandbox_backends._shared.cgroups import (
    NO_LIMITS,
    Limits,
    NotHeldError,
    Place,
    SandboxGroup,
    Unavailable,
    find_place,
    make_group,
)
from isandbox_backends._shared.cgroups.place import CONTROLLERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox.policy import Policy, Quotas

CgroupUse = Literal["auto", "never", "require"]


@dataclass(frozen=True, slots=True)
class NativeOptions:
    """Options of the native backends.

    ``cgroup``: whether quotas are held by control groups. ``auto``: where this process may make them, and only when a quota
    is asked for that they hold better (``memory``, ``cpu_time``, a fraction of ``cpus``): joining one can take 10 ms a
    command on an idle machine. ``require``: always, and an error where they cannot be made. ``never``: quotas are watched.
    """

    cgroup: CgroupUse = "auto"

    def __post_init__(self) -> None:
        if self.cgroup not in ("auto", "never", "require"):
            raise ConfigurationError(f"cgroup: 'auto', 'never' or 'require', not {self.cgroup!r}")


@dataclass(frozen=True, slots=True)
class Holding:
    """What a control group will hold: ``held`` names quotas. Everything else is the plan's business. ``why`` there is none."""

    place: Place | None = None
    limits: Limits = NO_LIMITS
    held: frozenset[str] = frozenset()
    why: str = "no quota of this sandbox needs one"

    @property
    def controllers(self) -> frozenset[str]:
        return frozenset(self.place.parents) if self.place is not None else frozenset()

    def make(self, backend: str, name: str | None = None) -> SandboxGroup | None:
        """Make the group; ``None`` without one. ``name``: of one that outlives this process. Raises `SandboxError`, a `BackendUnavailableError` when a limit does not hold."""
        if self.place is None:
            return None
        try:
            return make_group(self.place, self.limits, name=name)
        except NotHeldError as error:
            raise BackendUnavailableError(
                f"the {backend} backend cannot run here: the layer cgroup is not in force: {error}; cgroup='never' runs without it"
            ) from error
        except OSError as error:
            raise SandboxError(f"the {backend} sandbox did not start: its control group cannot be made: {error}") from error


def usable_controllers() -> frozenset[str]:
    """The controllers whose groups this process can make."""
    return frozenset(name for name in CONTROLLERS if isinstance(_place(frozenset({name})), Place))


# Where this process is does not change under it, but for somebody who moves it on purpose; looking costs 0.1 ms.
_places: dict[frozenset[str], Place | Unavailable] = {}


def _place(wanted: frozenset[str]) -> Place | Unavailable:
    found = _places.get(wanted)
    if found is None:
        found = find_place(wanted)
        if not (isinstance(found, Unavailable) and found.passing):
            _places[wanted] = found
    return found


def hold(policy: Policy, use: CgroupUse, backend: str) -> Holding:
    """Decide what a control group holds. Raises `UnsupportedError` for ``require`` where there is none."""
    wanted = _wanted(policy)
    if use == "never":
        return Holding(why="cgroup='never'")
    if use == "auto" and not wanted:
        return Holding()
    # The more the better: with a group at hand it counts the refused processes too.
    choices = [frozenset({"pids", *wanted}), wanted] if _asked(policy.quotas, "pids", policy.waive) else [wanted]
    places = [_place(choice) for choice in choices if choice]
    place = next((found for found in places if isinstance(found, Place)), None)
    if place is None:
        why = next((found.why for found in places if isinstance(found, Unavailable)), "no quota here needs one")
        if use == "require":
            raise UnsupportedError(f"cgroup='require': {why}; leave it out", option="cgroup", backend=backend)
        return Holding(why=why)
    return _holding(place, policy)


def _holding(place: Place, policy: Policy) -> Holding:
    quotas, controllers = policy.quotas, frozenset(place.parents)
    held = {name for name, needs in _NEEDS.items() if needs in controllers and _asked(quotas, name, policy.waive)}
    limits = Limits(
        memory=quotas.size("memory") if "memory" in held else None,
        pids=quotas.pids if "pids" in held else None,
        cpus=quotas.cpus if "cpus" in held else None,
    )
    return Holding(place, limits, frozenset(held))


_NEEDS = {"memory": "memory", "pids": "pids", "cpus": "cpu", "cpu_time": "cpuacct"}


def _asked(quotas: Quotas, name: str, waived: frozenset[str]) -> bool:
    return getattr(quotas, name) is not None and name not in waived


def _wanted(policy: Policy) -> frozenset[str]:
    """Controllers that are worth a group. Whole CPUs are held by affinity as well, and the number of processes by an rlimit."""
    quotas, waived = policy.quotas, policy.waive
    wanted = {_NEEDS[name] for name in ("memory", "cpu_time") if _asked(quotas, name, waived)}
    if _asked(quotas, "cpus", waived) and quotas.cpus is not None and quotas.cpus != int(quotas.cpus):
        wanted.add("cpu")
    return frozenset(wanted)


def with_groups(quotas: Mapping[str, Enforcement], controllers: frozenset[str]) -> dict[str, Enforcement]:
    """A capability record's quotas where groups with ``controllers`` can be made."""
    found = dict(quotas)
    for name, needs in _NEEDS.items():
        if needs in controllers and name in found and found[name].kind != "unsupported":
            found[name] = _BY_GROUP[name]
    return found


_BY_GROUP = {
    "memory": Enforcement("kernel", told="counted", note="by a control group: all that the kernel charges to it"),
    "pids": Enforcement("kernel", told="counted", note="counted where a control group is made for another quota"),
    "cpus": Enforcement("kernel", note="fractions by a control group, whole numbers by affinity"),
    "cpu_time": Enforcement("watched", period=0.05, note="counted by a control group"),
}
NO_HOLDING = Holding()
