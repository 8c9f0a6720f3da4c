"""The host before and after a probe: nothing of it may have changed (rule R5)."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import re
import resource
import stat
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

SETTLING = 3.0
"""Seconds that are given to what ends a moment after the sandbox: a zombie, a thread of the event loop."""

_CGROUP = re.compile(r"isandbox-\d+-(\d+)-.*")
# What a library may keep for later, by field: descriptors and threads, and bytes of memory.
_SPARE = {"descriptors": 8, "threads": 8, "memory": 256 << 20}


@dataclass(frozen=True, slots=True)
class HostState:
    """What a probe may not change. Other programs of the machine come and go, so only what is ours is counted, and what they
    have no business with.
    """

    children: frozenset[str]
    threads: int
    descriptors: int
    memory: int
    mounts: frozenset[str]
    cgroups: frozenset[str]
    listeners: frozenset[str]
    settings: frozenset[str]
    """Kernel-wide settings."""
    process: frozenset[str]
    """Of this very process: where it is, what it may use, and how it is scheduled."""

    @classmethod
    def now(cls) -> HostState:
        me = psutil.Process()
        return cls(
            children=frozenset(f"{child.pid} {_name(child)}" for child in me.children(recursive=True)),
            threads=threading.active_count(),
            descriptors=me.num_fds(),
            memory=me.memory_info().rss,
            mounts=frozenset(_mounts()),
            cgroups=frozenset(cgroups_of({me.pid})),
            listeners=frozenset(_listeners(me)),
            settings=frozenset(f"{name} is {_read(f'/proc/sys/{name}').strip()}" for name in _SETTINGS),
            process=frozenset(_own()),
        )


def _mounts() -> Iterator[str]:
    # The number first: a second mount on the same place is another one.
    for line in _read("/proc/self/mountinfo").splitlines():
        number, _, _, root, place, options, *_ = line.split()
        yield f"{number} {root} {place} {options}"


_SETTINGS = ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "kernel/domainname", "vm/overcommit_memory")


def _own() -> list[str]:
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    found = [f"{name} {resource.getrlimit(getattr(resource, name))}" for name in names]
    found += [f"cwd {os.getcwd()}", f"priority {os.getpriority(os.PRIO_PROCESS, 0)}", f"ids {os.getresuid()} {os.getresgid()}"]
    found += [f"{name} {_read(f'/proc/self/{name}').strip()}" for name in ("oom_score_adj", "coredump_filter", "cgroup")]
    found += [f"CPUs {sorted(os.sched_getaffinity(0))}", f"scheduler {os.sched_getscheduler(0)}"]
    return found + [f"namespace {_link(f'/proc/self/ns/{name}')}" for name in sorted(os.listdir("/proc/self/ns"))]


def changes(before: HostState, after: HostState) -> list[str]:
    """What is there that was not, or is other than it was. What has gone may go: it was not the probe's to keep."""
    found = []
    for field in fields(HostState):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if isinstance(was, int):
            if now > was + _SPARE[field.name]:
                found.append(f"{field.name}: {was} before, {now} after")
        elif now - was:
            found.append(f"{field.name}: {sorted(now - was)}")
    return found


def others_may(found: Collection[str]) -> bool:
    """Whether other programs of the machine may have made all of these `changes`: an engine mounts for its own containers. A
    mount that is made again is a new one. A setting is not: who sets it once and once more changes it once only.
    """
    return all(change.startswith("mounts: ") for change in found)


async def settled(before: HostState, *, seconds: float | None = None) -> list[str]:
    """The changes that are still there after ``seconds``, `SETTLING` of them; at once when there is none."""
    end = time.monotonic() + (SETTLING if seconds is None else seconds)
    while found := changes(before, HostState.now()):
        if time.monotonic() >= end:
            return found
        gc.collect()  # what nobody holds any more may hold a descriptor
        await asyncio.sleep(0.05)
    return []


def cgroups_of(pids: Collection[int]) -> Iterator[str]:
    """Control groups that were made by these processes: their number stands in the name. Others may go while they are looked for."""
    for place, names, _ in os.walk("/sys/fs/cgroup"):  # unlike glob, it does not mind
        yield from (f"{place}/{name}" for name in names if (m := _CGROUP.fullmatch(name)) and int(m[1]) in pids)


def contents(directory: Path) -> Mapping[str, str]:
    """A directory and everything below it: inode, kind, mode, owners, number of names, time of change, and the hash of a file's
    bytes or the text of a link. What cannot be read is marked so.
    """
    found = {".": _mark(directory)}
    for root, names, files in os.walk(directory):
        for name in (*names, *files):
            path = Path(root, name)
            found[str(path.relative_to(directory))] = _mark(path)
    return found


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Names of `contents` that are not what they were."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _mark(path: Path) -> str:
    try:
        status = path.lstat()
        mark = f"{status.st_ino} {status.st_mode:o} {status.st_uid}:{status.st_gid} {status.st_nlink} {status.st_mtime_ns}"
        if stat.S_ISLNK(status.st_mode):
            return f"{mark} -> {os.readlink(path)}"
        if stat.S_ISREG(status.st_mode):
            return f"{mark} {_hash(path)}"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return mark


def _hash(path: Path) -> str:
    # Without waiting or following: an attack that works may have put something else in its place meanwhile.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _listeners(me: psutil.Process) -> list[str]:
    return [f"{c.laddr}" for c in me.net_connections("all") if c.status == psutil.CONN_LISTEN]


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "gone"
