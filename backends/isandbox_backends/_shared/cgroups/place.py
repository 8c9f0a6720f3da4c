"""Where a sandbox's groups can be made: from what the kernel says of this process to directories. Pure but for reading.

Nothing that exists is changed: a group that this process did not make is never given controllers, limits or processes.

- cgroup v1 (kernel: admin-guide/cgroup-v1) has a hierarchy per controller, or per few of them; a group may hold processes
  and groups, so that ours are made in the group where this process is.
- cgroup v2 (admin-guide/cgroup-v2) has one hierarchy, and a group that gives controllers to its children holds no processes
  itself. So ours are made in the nearest group above this process that gives its children every controller that is wanted,
  and that this process may write to: for an ordinary user that is one delegated by systemd. Moving a process asks for the
  right to write to cgroup.procs of the nearest group above both places, which is that one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal

from isandbox_backends._shared.cgroups.fs import CgroupFs, KernelFs
from isandbox_backends._shared.portable import is_passing

# What each quota needs. Version 2 counts CPU time in every group; in version 1 that is a controller of its own.
CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Place:
    """``parents``: controller -> the directory in which groups are made; several controllers may share one."""

    version: Literal["v1", "v2"]
    parents: Mapping[str, str]

    @property
    def directories(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.parents.values()))


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No group can be made here, and why, in words for people. ``passing``: it may be otherwise at the next look."""

    why: str
    passing: bool = False


@dataclass(frozen=True, slots=True)
class _Mount:
    root: str
    point: str
    kind: str
    controllers: frozenset[str]


def find_place(wanted: frozenset[str], fs: CgroupFs | None = None) -> Place | Unavailable:
    """The place for groups with the controllers ``wanted``, names of `CONTROLLERS`. Does not raise `OSError`."""
    if fs is None:
        fs = _kernel()
    try:
        mounts = list(_mounts(fs.read("/proc/self/mountinfo")))
        own = dict(_own_groups(fs.read("/proc/self/cgroup")))
    except OSError as error:
        return Unavailable(f"no control groups: {error.strerror}", is_passing(error))
    old = {name for mount in mounts if mount.kind == "cgroup" for name in mount.controllers}
    if wanted & old:
        return _place_v1(fs, wanted, mounts, own)
    return _place_v2(fs, wanted, mounts, own)


@lru_cache(maxsize=1)
def _kernel() -> CgroupFs:
    return KernelFs()


def _mounts(mountinfo: str) -> list[_Mount]:
    """Lines of proc_pid_mountinfo(5): id, parent, device, root, mount point, options, fields up to "-", type, source, more."""
    found = []
    for line in mountinfo.split("\n"):
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(rest) < 3 or rest[0] not in {"cgroup", "cgroup2"}:
            continue
        found.append(_Mount(_unescaped(fields[3]), _unescaped(fields[4]), rest[0], frozenset(rest[2].split(","))))
    return found


def _own_groups(cgroup: str) -> list[tuple[str, str]]:
    """Lines of cgroups(7), ``id:controllers:path``: each controller, or "" for version 2, with the path."""
    found = []
    for line in cgroup.split("\n"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path.startswith("/"):
            found += [(name, path) for name in controllers.split(",")]
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def _directory(mount: _Mount, path: str) -> str | None:
    """The group ``path`` in the file system; ``None`` when this mount does not show it."""
    pure = PurePosixPath(path)
    if ".." in pure.parts:  # this process is outside its own cgroup namespace's root
        return None
    if not pure.is_relative_to(mount.root):
        return None
    below = pure.relative_to(mount.root)
    return mount.point if str(below) == "." else f"{mount.point}/{below}"


def _place_v1(fs: CgroupFs, wanted: frozenset[str], mounts: list[_Mount], own: Mapping[str, str]) -> Place | Unavailable:
    parents = {}
    for name in sorted(wanted):
        candidates = [_directory(m, own.get(name, "/..")) for m in mounts if m.kind == "cgroup" and name in m.controllers]
        directory = next((path for path in candidates if path is not None), None)
        if directory is None:
            return Unavailable(f"cgroup v1 without the {name} controller")
        if not fs.writable(directory):
            return Unavailable("cgroup v1, whose groups only root can make")
        parents[name] = directory
    return Place("v1", parents)


def _place_v2(fs: CgroupFs, wanted: frozenset[str], mounts: list[_Mount], own: Mapping[str, str]) -> Place | Unavailable:
    wanted = wanted - {"cpuacct"}
    shown = [(m.point, _directory(m, own.get("", "/.."))) for m in mounts if m.kind == "cgroup2"]
    top, here = next(((point, path) for point, path in shown if path is not None), ("", ""))
    if not here:
        return Unavailable("no control groups are mounted here")
    lacking = "no group above this process gives its children"
    for directory in map(str, (PurePosixPath(here), *PurePosixPath(here).parents)):
        if not PurePosixPath(directory).is_relative_to(top):
            break
        # With processes in it, this one among them, only the root of all groups may give controllers to children.
        if directory == here and fs.exists(f"{directory}/cgroup.type"):
            continue
        try:
            given = set(fs.read(f"{directory}/cgroup.subtree_control").split())
        except OSError as error:
            if is_passing(error):
                return Unavailable(f"no control groups: {error.strerror}", passing=True)
            break
        if not wanted <= given:
            continue
        if not (fs.writable(directory) and fs.writable(f"{directory}/cgroup.procs")):
            return Unavailable(f"cgroup v2, and {directory} is not this user's. Run it in a delegated scope: {_DELEGATED}")
        return Place("v2", {**dict.fromkeys(sorted(wanted), directory), "cpuacct": directory})
    return Unavailable(f"cgroup v2, and {lacking} {', '.join(sorted(wanted))}. Run it in a delegated scope: {_DELEGATED}")


_DELEGATED = "systemd-run --user --scope -p Delegate=yes -- COMMAND"
