"""Quotas that no kernel mechanism covers here: memory of all commands together, CPU time of one with all its children.

Looked at every `PERIOD` seconds while commands run, so both can be overshot by what happens in between.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from .plan import Plan
from .wire import Fault, Limit

PERIOD = 0.05


@dataclass(slots=True)
class _Use:
    memory: int = 0
    cpu: float = 0.0
    limits: Limit = Limit.NONE


def look(plan: Plan, keepers: Iterable[int]) -> list[tuple[int, Fault, Limit]]:
    """Per keeper why its command has to end, if it has to, and which limits its processes have used up. When memory is over
    its quota it is the largest command that ends.
    """
    uses = {pid: _Use() for pid in keepers}
    _measure(uses, plan.most(resource.RLIMIT_NOFILE))
    largest = 0
    if plan.memory and sum(use.memory for use in uses.values()) > plan.memory:
        largest = max(uses, key=lambda pid: uses[pid].memory)
    found = []
    for pid, use in uses.items():
        fault = Fault.CPU if plan.cpu and use.cpu > plan.cpu else Fault.OOM if pid == largest else Fault.NONE
        if fault or use.limits:
            found.append((pid, fault, use.limits))
    return found


def _measure(uses: dict[int, _Use], most_open: int | None) -> None:
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
                if most_open is not None and process.num_fds() >= most_open:
                    uses[owner].limits |= Limit.OPEN_FILES


def _private(process: psutil.Process) -> int:
    info = process.memory_info()
    return max(0, int(info.rss) - int(getattr(info, "shared", 0)))
