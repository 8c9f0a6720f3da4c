"""The host before and after a probe: nothing of it may have changed (rule R5)."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class HostState:
    """What a probe may not change. Other programs of the machine come and go, so only what is ours is counted."""

    children: frozenset[str]
    threads: int
    descriptors: int
    mounts: frozenset[str]
    cgroups: frozenset[str]
    listeners: frozenset[str]
    core_pattern: str
    namespaces: frozenset[str]

    @classmethod
    def now(cls) -> HostState:
        me = psutil.Process()
        return cls(
            children=frozenset(f"{child.pid} {_name(child)}" for child in me.children(recursive=True)),
            threads=threading.active_count(),
            descriptors=me.num_fds(),
            mounts=frozenset(" ".join(line.split()[3:5]) for line in _read("/proc/self/mountinfo").splitlines()),
            cgroups=frozenset(str(p) for p in Path("/sys/fs/cgroup").glob(f"*/**/isandbox-*-{me.pid}-*")),
            listeners=frozenset(_listeners(me)),
            core_pattern=_read("/proc/sys/kernel/core_pattern"),
            namespaces=frozenset(_links("/proc/self/ns")),
        )


def changes(before: HostState, after: HostState, *, spare: int = 8) -> list[str]:
    """What is there that was not, or is other than it was. ``spare``: descriptors and threads that a library may keep."""
    found = []
    for field in fields(HostState):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if isinstance(was, int):
            if now > was + spare:
                found.append(f"{field.name}: {was} before, {now} after")
        elif isinstance(was, frozenset) and field.name != "namespaces":
            if now - was:
                found.append(f"{field.name}: {sorted(now - was)}")
        elif was != now:
            found.append(f"{field.name} changed")
    return found


def contents(directory: Path) -> Mapping[str, str]:
    """Everything below a directory: kind, mode, owner, and the hash of a file's bytes or the text of a link."""
    found = {}
    for root, names, files in os.walk(directory):
        for name in (*names, *files):
            path = Path(root, name)
            mark = f"{path.lstat().st_mode:o} {path.lstat().st_uid}"
            if path.is_symlink():
                mark += f" -> {os.readlink(path)}"
            elif path.is_file():
                mark += f" {hashlib.sha256(path.read_bytes()).hexdigest()}"
            found[str(path.relative_to(directory))] = mark
    return found


def _listeners(me: psutil.Process) -> list[str]:
    return [f"{c.laddr}" for c in me.net_connections("all") if c.status == psutil.CONN_LISTEN]


def _links(directory: str) -> list[str]:
    try:
        return [os.readlink(os.path.join(directory, name)) for name in os.listdir(directory)]
    except OSError:
        return []


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
