"""What is looked at of a host, as plain data: every check is a function of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["ok", "warn", "fail", "not applicable"]

_RELEASE = re.compile(r"(\d+)\.(\d+)")
_DIGITS = re.compile(r"[0-9]{1,19}\Z", re.ASCII)
_OCTAL = re.compile(r"\\([0-7]{3})")


def whole_number(text: str) -> int | None:
    """One of at most 19 digits: a file of a container is somebody else's, and Python refuses to read thousands of them."""
    return int(text) if _DIGITS.match(text) else None


@dataclass(frozen=True, slots=True)
class Row:
    """One check. ``fail``: the `seccomp` backend cannot start, and this is why or may be. ``warn``: something holds less or
    is missing. ``fix``: one command to copy, empty where none helps.
    """

    name: str
    state: State
    seen: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo. ``options``: those of the mount and of its file system."""

    point: str
    kind: str
    options: frozenset[str]


@dataclass(frozen=True, slots=True)
class HostView:
    """``files``: text of each of `isandbox.cli.doctor.read.FILES` that could be read. ``present``: which of its ``PATHS`` exist.
    ``programs``: which of its ``PROGRAMS`` are on the PATH or in a system's directory. ``native``: why the `seccomp` backend
    cannot start, ``None`` when a sandbox of it was started; ``layers`` and ``memory`` (the
    kind of that quota's enforcement: ``kernel`` where control groups can be made) are then its.
    """

    platform: str = "linux"
    release: str = ""
    uid: int = 0
    user: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    helper: str = ""
    helper_built: bool = True
    native: str | None = None
    layers: Mapping[str, str] = field(default_factory=dict)
    memory: str = ""

    @property
    def kernel(self) -> tuple[int, int]:
        """Version of the kernel; (0, 0) where its name has none."""
        match = _RELEASE.match(self.release)
        return (int(match[1]), int(match[2])) if match else (0, 0)

    def number(self, path: str) -> int | None:
        """The number in a file; ``None`` without the file, or one in it."""
        text = self.files.get(path, "").strip()
        return whole_number(text)

    def mounts(self) -> Iterator[Mount]:
        """Lines of proc_pid_mountinfo(5) that are whole."""
        for line in self.files.get("/proc/self/mountinfo", "").splitlines():
            before, _, after = line.partition(" - ")
            fields, rest = before.split(" "), after.split(" ")
            if len(fields) >= 6 and len(rest) >= 3:
                options = frozenset(fields[5].split(",")) | frozenset(rest[2].split(","))
                yield Mount(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]), rest[0], options)

    def mount_of(self, path: str) -> Mount | None:
        """The mount that ``path`` is on: the deepest, and the last of those at one place."""
        found = None
        for mount in self.mounts():
            above = mount.point.rstrip("/") + "/"
            if f"{path}/".startswith(above) and (found is None or len(mount.point) >= len(found.point)):
                found = mount
        return found

    def install(self, debian: str, fedora: str, alpine: str) -> str:
        """The command that installs a package, in the words of this distribution; Debian's where it is none of those known."""
        text = self.files.get("/etc/os-release", "")
        words = {
            word
            for line in text.splitlines()
            if line.startswith(("ID=", "ID_LIKE="))
            for word in line.partition("=")[2].strip("\"'").split()
        }
        if words & {"fedora", "rhel", "centos"}:
            return f"sudo dnf install {fedora}"
        return f"sudo apk add {alpine}" if "alpine" in words else f"sudo apt-get install {debian}"
