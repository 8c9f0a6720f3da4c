"""Quotas that no kernel mechanism covers here: memory of all commands together, CPU time of one with all its children.

Looked at every `PERIOD` seconds while commands run, so both can be overshot by what happens in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from .plan import Plan
from .wire import Fault

PERIOD = 0.05


@dataclass(slots=True)
class _Use:
    memory: int = 0
    cpu: float = 0.0


def over_quota(plan: Plan, keepers: Iterable[int]) -> list[tuple[int, Fault]]:
    """The keepers whose commands have to end, and why. When memory is over its quota that is the largest command."""
    uses = {pid: _Use() for pid in keepers}
    _measure(uses)
    verdicts = [(pid, Fault.CPU) for pid, use in uses.items() if plan.cpu and use.cpu > plan.cpu]
    if plan.memory and sum(use.memory for use in uses.values()) > plan.memory:
        largest = max(uses, key=lambda pid: uses[pid].memory)
        verdicts.append((largest, Fault.OOM))
    return verdicts


def _measure(uses: dict[int, _Use]) -> None:
    owners = {pid: pid for pid in uses}  # of every process: the keeper it descends from
    for process in psutil.Process().children(recursive=True):  # parents come before their children
        with contextlib.suppress(psutil.Error), process.oneshot():
            times = process.cpu_times()
            inherited = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
            if process.pid in uses:
                uses[process.pid].cpu += inherited  # those that the keeper has reaped
                continue
            owner = owners.get(process.ppid())
            if owner is not None:
                owners[process.pid] = owner
                uses[owner].cpu += times.user + times.system + inherited
                uses[owner].memory += _private(process)


def _private(process: psutil.Process) -> int:
    info = process.memory_info()
    return max(0, int(info.rss) - int(getattr(info, "shared", 0)))
