"""The compiled plan that the helper carries out: records to bytes. Pure. The C half is backends/helper/plan.h."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag

PLAN_VERSION = 1

RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
NAMESPACES = ("user", "mnt", "pid", "ipc", "uts", "cgroup", "net")


class Mode(IntFlag):
    NAMESPACES = 1
    SPLIT_UID = 2
    LOOPBACK = 4
    OPEN_EARLY = 8
    KEYRING = 16
    HOLD_IDS = 128
    """No sandbox: a process in a user namespace of its own, until the control socket closes."""
    DETACHED = 256
    """The sandbox outlives whoever made it, and lets other clients in. Descriptors 7, 8 and 9 are given (base.h)."""


class IdUse(IntFlag):
    NONE = 0
    CLAIM = 1
    """Descriptor 5 is kept open for as long as the sandbox lives."""
    OUTER = 2
    """The outside ids are those of the user namespace that is descriptor 6."""
    OWNER = 4
    """``owner``, an id outside, owns the sandbox's user namespace instead of the caller."""


@dataclass(frozen=True, slots=True)
class ModeRecord:
    flags: Mode
    clone_flags: int = 0
    command_uid: int = 0
    command_gid: int = 0
    pids: int = 0
    memory: int = 0
    cpu_ns: int = 0

    def encode(self) -> tuple[int, bytes]:
        uid, gid = self.command_uid, self.command_gid
        return 1, struct.pack("<QIIIIQQ", self.clone_flags, self.flags, uid, gid, self.pids, self.memory, self.cpu_ns)


@dataclass(frozen=True, slots=True)
class IdMaps:
    """Lines of uid_map and gid_map: "inside outside count"."""

    uid_map: str
    gid_map: str
    use: IdUse = IdUse.NONE
    owner: int = 0

    def encode(self) -> tuple[int, bytes]:
        return 2, struct.pack("<II", self.use, self.owner) + _strings(self.uid_map, self.gid_map)


@dataclass(frozen=True, slots=True)
class Bind:
    source: str
    target: str
    attributes: int = RDONLY | NOSUID | NODEV
    idmap: int = 0
    """1: the owner of the source appears as the command's user; 2: the same where the file system can do it."""
    optional: bool = False
    recursive: bool = True

    def encode(self) -> tuple[int, bytes]:
        head = struct.pack("<IIII", self.attributes, self.idmap, self.optional, self.recursive)
        return 3, head + _strings(self.source, self.target)


@dataclass(frozen=True, slots=True)
class Tmpfs:
    target: str
    options: str
    attributes: int = NOSUID | NODEV

    def encode(self) -> tuple[int, bytes]:
        return 4, struct.pack("<II", self.attributes, 0) + _strings(self.options, self.target)


@dataclass(frozen=True, slots=True)
class Proc:
    target: str

    def encode(self) -> tuple[int, bytes]:
        return 5, _strings(self.target)


@dataclass(frozen=True, slots=True)
class Devpts:
    target: str

    def encode(self) -> tuple[int, bytes]:
        return 6, _strings(self.target)


@dataclass(frozen=True, slots=True)
class Directory:
    target: str
    mode: int = 0o755
    owned: bool = False
    """The command's user is its owner."""

    def encode(self) -> tuple[int, bytes]:
        return 7, struct.pack("<II", self.mode, self.owned) + _strings(self.target)


@dataclass(frozen=True, slots=True)
class Rebind:
    """A directory of the new root, seen at a second place of it."""

    source: str
    target: str

    def encode(self) -> tuple[int, bytes]:
        return 16, _strings(self.source, self.target)


@dataclass(frozen=True, slots=True)
class Symlink:
    text: str
    target: str

    def encode(self) -> tuple[int, bytes]:
        return 8, _strings(self.text, self.target)


@dataclass(frozen=True, slots=True)
class File:
    target: str
    content: bytes = b""
    mode: int = 0o644

    def encode(self) -> tuple[int, bytes]:
        return 9, struct.pack("<II", self.mode, len(self.content)) + _strings(self.target) + self.content


@dataclass(frozen=True, slots=True)
class Hostname:
    name: str

    def encode(self) -> tuple[int, bytes]:
        return 10, _strings(self.name)


@dataclass(frozen=True, slots=True)
class Rlimit:
    resource: int
    soft: int
    hard: int

    def encode(self) -> tuple[int, bytes]:
        return 11, struct.pack("<IIQQ", self.resource, 0, self.soft, self.hard)


@dataclass(frozen=True, slots=True)
class Landlock:
    """Accesses and scopes to handle; the helper leaves out what the kernel does not know. Both 0: waived."""

    handled: int
    scopes: int

    def encode(self) -> tuple[int, bytes]:
        return 12, struct.pack("<QQ", self.handled, self.scopes)


@dataclass(frozen=True, slots=True)
class Allow:
    path: str
    access: int

    def encode(self) -> tuple[int, bytes]:
        return 13, struct.pack("<Q", self.access) + _strings(self.path)


@dataclass(frozen=True, slots=True)
class Seccomp:
    program: bytes

    def encode(self) -> tuple[int, bytes]:
        return 14, self.program


@dataclass(frozen=True, slots=True)
class Affinity:
    cpus: tuple[int, ...]

    def encode(self) -> tuple[int, bytes]:
        words = [0] * (max(self.cpus) // 64 + 1)
        for cpu in self.cpus:
            words[cpu // 64] |= 1 << (cpu % 64)
        return 15, struct.pack(f"<{len(words)}Q", *words)


@dataclass(frozen=True, slots=True)
class Sysctl:
    """A file below /proc/sys, of a namespace that is the sandbox's own, and what is written to it."""

    name: str
    value: str

    def encode(self) -> tuple[int, bytes]:
        return 17, _strings(self.name, self.value)


@dataclass(frozen=True, slots=True)
class Store:
    """The directory of the new root in which `View` and `Cover` find their names, by descriptor: it may be covered itself."""

    target: str

    def encode(self) -> tuple[int, bytes]:
        return 18, _strings(self.target)


@dataclass(frozen=True, slots=True)
class View:
    """What stands at ``source`` in the new root, once more at ``name`` in the store."""

    source: str
    name: str

    def encode(self) -> tuple[int, bytes]:
        return 19, _strings(self.source, self.name)


@dataclass(frozen=True, slots=True)
class Cover:
    """Lays ``name`` of the store, or its ``file`` where no directory is, read-only over what is at ``target``.

    ``keep``: the mount that the target is in; it is never covered itself. ``needed``: what is not there, or is a link, ends
    the start instead of being left alone. ``in_store``: the target is in a view.
    """

    target: str
    keep: str
    name: str = "directory"
    needed: bool = False
    in_store: bool = False

    def encode(self) -> tuple[int, bytes]:
        keep = len(self.keep.encode("utf-8", "surrogateescape"))
        head = struct.pack("<IIII", self.in_store, self.needed, keep, 0)
        return 20, head + _strings(self.name, self.target)


@dataclass(frozen=True, slots=True)
class Outside:
    """Inode numbers of the host's namespaces, in the order of `NAMESPACES`; 0 for one that cannot be seen."""

    namespaces: tuple[int, ...]

    def encode(self) -> tuple[int, bytes]:
        return 21, struct.pack(f"<{len(NAMESPACES)}Q", *self.namespaces)


@dataclass(frozen=True, slots=True)
class Life:
    """When the sandbox ends of its own accord, milliseconds: so long after its start, and so long after it was last used.
    0: never.
    """

    lifetime_ms: int = 0
    idle_ms: int = 0

    def encode(self) -> tuple[int, bytes]:
        return 22, struct.pack("<QQ", self.lifetime_ms, self.idle_ms)


Mountable = Bind | Rebind | Store | View | Cover | Tmpfs | Proc | Devpts | Directory | Symlink | File
Record = ModeRecord | IdMaps | Mountable | Hostname | Rlimit | Landlock | Allow | Seccomp | Affinity | Sysctl | Outside | Life


def encode_plan(records: Iterable[Record]) -> bytes:
    body = b"".join(map(_encode, records))
    return struct.pack("<4sIII", b"ISBP", PLAN_VERSION, len(body) + 16, 0) + body


# All but a few records of a plan are the same objects in every plan of a process (see seccomp.mounts). Remembered by
# identity: hashing them costs more than half of what encoding them does. The record is kept, so that its id stays its own.
_REMEMBERED: dict[int, tuple[Record, bytes]] = {}
_REMEMBERED_MOST = 1024


def _encode(record: Record) -> bytes:
    known = _REMEMBERED.get(id(record))
    if known is not None and known[0] is record:
        return known[1]
    tag, payload = record.encode()
    encoded = struct.pack("<II", tag, len(payload)) + payload + bytes(-len(payload) % 8)
    if len(_REMEMBERED) >= _REMEMBERED_MOST:
        _REMEMBERED.clear()
    _REMEMBERED[id(record)] = (record, encoded)
    return encoded


def _strings(*texts: str) -> bytes:
    for text in texts:
        if "\0" in text:
            raise ValueError("a NUL character cannot stand in a plan")
    return "".join(text + "\0" for text in texts).encode("utf-8", "surrogateescape")
