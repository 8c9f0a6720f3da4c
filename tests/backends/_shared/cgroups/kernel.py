"""A simulated cgroup file system with the kernel's rules, for versions and owners that this machine does not have.

What it knows: version 2's controllers come down through cgroup.subtree_control, which a group with processes may not write
(but for the root); groups are removed when they are empty; files have an owner; v1 has a hierarchy per controller.
Source: Documentation/admin-guide/cgroup-v2.rst, sections "Top-down Constraint" and "No Internal Process Constraint".
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field

FILES = {
    "memory": ("memory.max", "memory.swap.max", "memory.oom.group", "memory.events"),
    "pids": ("pids.max", "pids.events"),
    "cpu": ("cpu.max",),
}
FILES_V1 = {
    "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"),
    "pids": ("pids.max", "pids.events"),
    "cpu": ("cpu.cfs_period_us", "cpu.cfs_quota_us"),
    "cpuacct": ("cpuacct.usage",),
}


@dataclass
class Group:
    owned: bool
    processes: int = 0
    files: dict[str, str] = field(default_factory=dict)


class SimulatedKernel:
    """``groups``: path -> group. ``texts``: the /proc files. Implements `CgroupFs`."""

    def __init__(self, mountinfo: str, cgroup: str) -> None:
        self.texts = {"/proc/self/mountinfo": mountinfo, "/proc/self/cgroup": cgroup}
        self.groups: dict[str, Group] = {}
        self.v1: dict[str, tuple[str, ...]] = {}
        self.fail_after: int | None = None
        self.opened: list[str] = []

    def add(self, path: str, *, owned: bool, given: str = "", processes: int = 0, root: bool = False) -> None:
        """A group that is there before; ``given``: the controllers that its children get."""
        group = Group(owned, processes, {"cgroup.procs": "", "cgroup.subtree_control": given, "cpu.stat": "usage_usec 0"})
        if not root:
            group.files["cgroup.type"] = "domain"
        self.groups[path] = group

    def add_v1(self, path: str, controllers: str, *, owned: bool) -> None:
        self.v1[path] = tuple(controllers.split(","))
        self.groups[path] = Group(owned, 0, {"cgroup.procs": ""})

    def _step(self) -> None:
        if self.fail_after is not None:
            self.fail_after -= 1
            if self.fail_after < 0:
                raise OSError(errno.ENOSPC, "No space left on device")

    def _group_of(self, path: str) -> tuple[Group, str]:
        directory, name = path.rsplit("/", 1)
        if directory not in self.groups or name not in self.groups[directory].files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self.groups[directory], name

    def read(self, path: str) -> str:
        if path in self.texts:
            return self.texts[path]
        group, name = self._group_of(path)
        if name == "cgroup.procs":
            return "".join(f"{number}\n" for number in range(1, group.processes + 1))
        return group.files[name]

    def write(self, path: str, text: str) -> None:
        self._step()
        group, name = self._group_of(path)
        if not group.owned:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        if name == "cgroup.subtree_control":
            if group.processes and "cgroup.type" in group.files:
                raise OSError(errno.EBUSY, "Device or resource busy", path)
            text = " ".join(word.lstrip("+") for word in text.split())
        group.files[name] = text

    def open(self, path: str, flags: int) -> int:
        self._step()
        group, _ = self._group_of(path)
        if flags & (os.O_WRONLY | os.O_RDWR) and not group.owned:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        self.opened.append(path)
        return os.open(os.devnull, flags | os.O_CLOEXEC)

    def make(self, path: str) -> None:
        self._step()
        parent = path.rsplit("/", 1)[0]
        if not self.groups[parent].owned:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        if path in self.groups:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        of = next((names for top, names in self.v1.items() if f"{path}/".startswith(f"{top}/")), None)
        if of is not None:
            files = {name: "0" for controller in of for name in FILES_V1[controller]}
            self.groups[path] = Group(True, 0, {"cgroup.procs": "", **files})
            return
        self.add(path, owned=True)
        for controller in self.groups[parent].files["cgroup.subtree_control"].split():
            self.groups[path].files.update(dict.fromkeys(FILES.get(controller, ()), "0"))

    def remove(self, path: str) -> None:
        if path not in self.groups:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if self.groups[path].processes or self.below(path):
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        del self.groups[path]

    def below(self, path: str) -> list[str]:
        return [other for other in self.groups if other.startswith(f"{path}/")]

    def list(self, path: str) -> list[str]:
        if path not in self.groups:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return [other.rsplit("/", 1)[1] for other in self.below(path) if "/" not in other[len(path) + 1 :]]

    def exists(self, path: str) -> bool:
        directory, name = path.rsplit("/", 1)
        return path in self.groups or (directory in self.groups and name in self.groups[directory].files)

    def writable(self, path: str) -> bool:
        if path in self.groups:
            return self.groups[path].owned
        group, _ = self._group_of(path)
        return group.owned
