"""Quotas to the records that the helper enforces. Pure."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING

from isandbox.errors import UnsupportedError
from isandbox_backends._shared.plan import Affinity, Record, Rlimit

if TYPE_CHECKING:
    from isandbox.policy import Policy, Quotas

# Linux: include/uapi/asm-generic/resource.h, the same on x86-64 and aarch64. Not taken from `resource`, which does not
# exist on every platform that imports this.
RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_NICE, RLIMIT_RTPRIO = 0, 1, 2, 4, 7, 13, 14


_NET_FACTOR, _NET_LEAST = 8, 4 << 30
# Bytes. With 0 no file is written, but where core_pattern is a pipe the kernel starts the host's crash handler, outside the
# sandbox and as root, and hands it what the program holds. 1 is its own mark for "abort" (fs/coredump.c), and too small for a
# file as well.
_NO_CORE = 1


def limit_records(quotas: Quotas, *, hard_open_files: int, held: frozenset[str] = frozenset()) -> list[Record]:
    """Rlimits of every command. Core dumps and priorities above the normal one are off, whatever the caller itself may do;
    a limit is never above what the caller may have. ``held``: quotas that a control group holds.
    """
    records: list[Record] = [Rlimit(RLIMIT_CORE, _NO_CORE, _NO_CORE), Rlimit(RLIMIT_NICE, 0, 0), Rlimit(RLIMIT_RTPRIO, 0, 0)]
    if quotas.open_files is not None:
        most = min(quotas.open_files, hard_open_files)
        records.append(Rlimit(RLIMIT_NOFILE, most, most))
    if (file_size := quotas.size("file_size")) is not None:
        records.append(Rlimit(RLIMIT_FSIZE, file_size, file_size))
    if (memory := quotas.size("memory")) is not None and "memory" not in held:
        # The watcher ends a command that is over its quota, and says so; this net is for what it could not look at in time. A
        # tighter one would only make a large allocation fail, which nobody could tell from the program's own failure. Not
        # RLIMIT_AS: node and the JVM reserve far more address space than they use.
        net = max(_NET_FACTOR * memory, memory + _NET_LEAST)
        records.append(Rlimit(RLIMIT_DATA, net, net))
    if quotas.cpu_time is not None:
        # The watcher ends the command at its quota; the kernel ends each process a second later if it does not.
        seconds = math.ceil(quotas.cpu_time) + 1
        records.append(Rlimit(RLIMIT_CPU, seconds, seconds))
    return records


def hard_open_files() -> int:
    """How many descriptors this process may allow anybody."""
    import resource  # not on every platform that imports this

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def check_cpus(policy: Policy, backend: str, held: frozenset[str]) -> None:
    """CPUs are held by affinity: whole ones only, and no more than this process may use. Raises `UnsupportedError`."""
    cpus = policy.quotas.cpus
    if cpus is None or "cpus" in policy.waive or "cpus" in held:
        return
    usable = len(os.sched_getaffinity(0))
    if cpus != int(cpus) or cpus > usable:
        raise UnsupportedError(
            f"quotas.cpus={cpus:g}: CPUs are held by affinity here, whole ones of the {usable} that this process may use; ask "
            "for such a number, or waive={'cpus'}",
            option="quotas.cpus",
            backend=backend,
        )


def affinity_records(policy: Policy, held: frozenset[str]) -> list[Record]:
    """The first CPUs that this process itself may use; see `check_cpus`."""
    if policy.quotas.cpus is None or policy.waive & {"cpus"} or "cpus" in held:
        return []
    return [Affinity(tuple(sorted(os.sched_getaffinity(0))[: int(policy.quotas.cpus)]))]
