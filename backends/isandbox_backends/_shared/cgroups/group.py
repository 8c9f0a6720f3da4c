"""The groups of one sandbox: one for all its commands, which holds the quotas, and in it one per command, which counts.

A command's group is used again when nothing runs in it any more. Counters are read as differences, so that it is as good as a
new one; and a group that is removed is not gone for the kernel as long as a page of the command is charged to it, such as one
file that it left on a tmpfs. Each of those costs 16 KiB of the sandbox's own quota (Linux 6.18, v1): with 16 MiB nothing
started any more after 900 commands that left a file each.

The helper is in neither: it is small, and what it does must not fail because a command has used everything up. A command
joins its group before its program runs, by descriptors that the host has opened; a process inside can reach neither the
files nor a way out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections import deque
from dataclasses import dataclass, field

from isandbox_backends._shared.cgroups.fs import CgroupFs, KernelFs
from isandbox_backends._shared.cgroups.owner import new_name, remove_dead
from isandbox_backends._shared.cgroups.place import Place
from isandbox_backends._shared.protocol import Meter

# One period of the CPU controller, microseconds: the kernel's own default.
_CPU_PERIOD = 100_000
_REMOVE_WITHIN = 2.0
# How many groups of ended commands are looked at for one without processes, before another is made.
_LOOKS = 8


# The kernel rounds bytes down to whole pages, of 64 KiB at most; near 2**63 it counts no further, and has no limit then.
_PAGE_MOST = 65_536
_AS_GOOD_AS_NONE = 1 << 62


class NotHeldError(OSError):
    """A limit was written without an error, and the kernel does not hold it."""


def _holds(text: str, value: int | str) -> bool:
    """Whether what a limit's file says is what was written to it."""
    if isinstance(value, str) or not text.isdigit():
        return text == str(value) or (isinstance(value, int) and value >= _AS_GOOD_AS_NONE)
    return 0 <= value - int(text) < _PAGE_MOST or value >= _AS_GOOD_AS_NONE


@dataclass(frozen=True, slots=True)
class Limits:
    """What the sandbox's group holds; ``None`` for no limit. ``memory`` in bytes; ``cpus`` may be a fraction."""

    memory: int | None = None
    pids: int | None = None
    cpus: float | None = None


NO_LIMITS = Limits()


@dataclass(slots=True)
class CommandGroup:
    """One command's group: ``joins`` and ``counters`` are descriptors that travel with START."""

    joins: list[int] = field(default_factory=list)
    counters: dict[Meter, int] = field(default_factory=dict)

    @property
    def meters(self) -> Meter:
        meters = Meter(0)
        for meter in self.counters:
            meters |= meter
        return meters

    def descriptors(self) -> list[int]:
        return [*self.joins, *(self.counters[meter] for meter in Meter if meter in self.counters)]

    def close(self) -> None:
        """For a group that never travels; else the descriptors are closed with the command's other ones."""
        for fd in self.descriptors():
            os.close(fd)
        self.joins, self.counters = [], {}


class SandboxGroup:
    """``held``: the controllers that hold or count something here."""

    def __init__(self, place: Place, name: str, limits: Limits, fs: CgroupFs) -> None:
        self.commands = "c"
        """How the names of commands' groups begin. What several processes make in one group must differ in it."""
        self.version, self.held = place.version, frozenset(place.parents)
        self._fs, self._limits = fs, limits
        self._of = {controller: f"{parent}/{name}" for controller, parent in place.parents.items()}
        self.directories = tuple(dict.fromkeys(self._of.values()))
        self._used: dict[int, str] = {}
        self._ended: deque[str] = deque()  # whose command has ended; a background child may live in one

    def describe(self) -> str:
        return f"{self.version} ({', '.join(sorted(self.held))})"

    def make(self) -> None:
        """Raises `OSError`; then nothing is left."""
        try:
            for directory in self.directories:
                self._fs.make(directory)
            self._set_limits()
        except BaseException:
            self.remove()
            raise

    def _set_limits(self) -> None:
        if self.version == "v2":
            given = " ".join(f"+{name}" for name in sorted(self.held - {"cpuacct"}))
            if given:
                self._fs.write(f"{self.directories[0]}/cgroup.subtree_control", given)
        limits, write = self._limits, self._write
        if limits.memory is not None:
            if self.version == "v2":
                write("memory", "memory.max", limits.memory)
                write("memory", "memory.swap.max", 0, optional=True)
            else:
                write("memory", "memory.limit_in_bytes", limits.memory)
                write("memory", "memory.memsw.limit_in_bytes", limits.memory, optional=True)  # memory and swap together
        if limits.pids is not None:
            write("pids", "pids.max", limits.pids)
        if limits.cpus is not None:
            quota = max(1000, round(limits.cpus * _CPU_PERIOD))  # the kernel takes no less than 1 ms
            if self.version == "v2":
                write("cpu", "cpu.max", f"{quota} {_CPU_PERIOD}")
            else:
                write("cpu", "cpu.cfs_period_us", _CPU_PERIOD)
                write("cpu", "cpu.cfs_quota_us", quota)

    def _write(self, controller: str, file: str, value: int | str, *, optional: bool = False) -> None:
        path = f"{self._of[controller]}/{file}"
        if optional and not self._fs.exists(path):  # a kernel without accounting of swap
            return
        self._fs.write(path, str(value))
        held = self._fs.read(path).strip()
        if not _holds(held, value):
            raise NotHeldError(errno.EPROTO, f"the limit {value} was written and reads back as {held!r}", path)

    def begin(self, id: int) -> CommandGroup:
        """A group for one command. Raises `OSError`; then no more is left than before."""
        name = self._idle()
        fresh = name is None
        name = name or f"{self.commands}{id}"
        command = CommandGroup()
        try:
            if fresh:
                self._make_one(name)
            for directory in self.directories:
                command.joins.append(self._fs.open(f"{directory}/{name}/cgroup.procs", os.O_RDWR))
            for meter, path in self._counters(name).items():
                command.counters[meter] = self._fs.open(path, os.O_RDONLY)
        except BaseException:
            command.close()
            self._remove_one(name)
            raise
        self._used[id] = name
        return command

    def _idle(self) -> str | None:
        """A group whose command has ended and that holds no processes; ``None`` when none is found."""
        for _ in range(_LOOKS):
            try:
                name = self._ended.popleft()
            except IndexError:
                return None
            try:
                if not any(self._fs.read(f"{directory}/{name}/cgroup.procs").strip() for directory in self.directories):
                    return name
            except FileNotFoundError:  # somebody has removed it, or a part of it
                self._remove_one(name)
                continue
            except BaseException:
                self._ended.append(name)
                raise
            self._ended.append(name)
        return None

    def _make_one(self, name: str) -> None:
        for directory in self.directories:
            self._fs.make(f"{directory}/{name}")
        if self.version == "v1":
            return
        group = f"{self.directories[0]}/{name}"
        if "memory" in self.held:  # out of memory ends a command as a whole, and no other
            self._fs.write(f"{group}/memory.oom.group", "1")
        if self._limits.pids is not None:  # counts where the limit is; before Linux 6.11, where the process is
            self._fs.write(f"{group}/pids.max", str(self._limits.pids))

    def _remove_one(self, name: str) -> None:
        for directory in self.directories:
            with contextlib.suppress(OSError):
                self._fs.remove(f"{directory}/{name}")

    def _counters(self, name: str) -> dict[Meter, str]:
        """Files with the counters: of the command's own group, and the sandbox's where that counts too."""
        old = self.version == "v1"
        found = {}
        if self._limits.memory is not None:
            found[Meter.MEMORY] = f"{self._of['memory']}/{name}/{'memory.oom_control' if old else 'memory.events'}"
        if self._limits.pids is not None:
            found[Meter.PIDS] = f"{self._of['pids']}/{name}/pids.events"
            if not old:
                found[Meter.PIDS_ALL] = f"{self._of['pids']}/pids.events"
        if "cpuacct" in self.held:
            found[Meter.CPU] = f"{self._of['cpuacct']}/{name}/{'cpuacct.usage' if old else 'cpu.stat'}"
        return found

    def end(self, id: int) -> None:
        """A command has ended, and all that joins with it has joined: another may have its group, once that is empty."""
        name = self._used.pop(id, None)
        if name is not None:
            self._ended.append(name)

    def remove_own(self) -> None:
        """Remove the groups of commands that were begun here and hold no processes, and nothing else."""
        for name in (*self._used.values(), *self._ended):
            self._remove_one(name)

    def remove(self) -> None:
        """Remove all, once nothing runs in them; what has just died may hold a group for a moment. Raises `OSError` when one
        is still there after two seconds.
        """
        until = time.monotonic() + _REMOVE_WITHIN
        while not self.remove_now():
            if time.monotonic() > until:
                raise OSError(errno.EBUSY, "a control group still holds processes", self.directories[0])
            time.sleep(0.002)

    def remove_now(self) -> bool:
        """Remove what holds no processes; true when that was all. Raises `OSError` for another reason than processes."""
        removed = [self._removed(directory) for directory in self.directories]
        return all(removed)

    def _removed(self, directory: str) -> bool:
        try:
            for name in self._fs.list(directory):
                with contextlib.suppress(FileNotFoundError):  # somebody else was faster; this one still has to go
                    self._fs.remove(f"{directory}/{name}")
            self._fs.remove(directory)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            raise
        return True


def make_group(place: Place, limits: Limits, fs: CgroupFs | None = None, *, name: str | None = None) -> SandboxGroup:
    """Make a sandbox's group; the first time in a place, what dead owners left there goes. Raises `OSError`.

    ``name``: of one that outlives this process, which nobody may take for a dead owner's: ``isandbox-`` and the sandbox's id.
    """
    fs = fs or KernelFs()
    for parent in set(place.directories) - _cleaned:
        _cleaned.add(parent)
        remove_dead(fs, parent)
    group = SandboxGroup(place, name or new_name(), limits, fs)
    group.make()
    return group


_cleaned: set[str] = set()
