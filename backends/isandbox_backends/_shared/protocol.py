"""The wire between host and helper, without any I/O (as h11 does it): its numbers, and what a helper says. What a host says is
in requests.py, what comes back on a descriptor of its own in answers.py. The C half is backends/helper/protocol.h.

A frame is u32 payload length, u16 type, u16 number of descriptors that travel with it, payload; little-endian. A hostile
helper may say anything: every length is bounded before it is believed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from functools import lru_cache
from types import MappingProxyType

from isandbox.records import Fault, Limit
from isandbox_backends._shared.bounds import bounded_death, bounded_errno, bounded_offset, bounded_pid, exactly

PROTOCOL_VERSION = 4
FEATURE_FDS = 1
# What a helper may send in one frame: an error with two texts is the longest.
REPLY_MAX = 4096
HEADER = struct.Struct("<IHH")
_EXIT = struct.Struct("<IiIIIIIIQQQ")
_PAIR = struct.Struct("<II")
_HELLO = struct.Struct("<IIIIIIQ")
_STARTED = struct.Struct("<IIIIQQ")
_OMITTED = struct.Struct("<IIQQ")
_REPORT = struct.Struct("<HHI")


class FrameType(IntEnum):
    HELLO = 1
    ERROR = 2
    LAUNCHED = 3
    STARTED = 4
    EXIT = 5
    GOODBYE = 6
    OMITTED = 7
    START = 16
    KILL = 17
    SIGNAL = 18
    RESIZE = 19
    ATTACH = 20
    ASK = 21
    SHUTDOWN = 22
    RELEASE = 23
    STDIN_EOF = 24


class Layer(IntEnum):
    """What stands between a command and the host, one report each. In small letters it is the name in ``info.layers``."""

    USER_NAMESPACE = 1
    MOUNT_NAMESPACE = 2
    PID_NAMESPACE = 3
    IPC_NAMESPACE = 4
    UTS_NAMESPACE = 5
    CGROUP_NAMESPACE = 6
    NET_NAMESPACE = 7
    IDS = 8
    GROUPS = 9
    SPLIT_UID = 10
    MOUNTS = 11
    CAPABILITIES = 12
    NO_NEW_PRIVS = 13
    DUMPABLE = 14
    KEYRING = 15
    LANDLOCK = 16
    SECCOMP = 17
    DESCRIPTORS = 18

    @property
    def word(self) -> str:
        return self.name.lower()


class Verdict(IntEnum):
    """``NOT_IN_EFFECT``: it was to be there, and the helper's own probe got through."""

    ENFORCED = 0
    NOT_PLANNED = 1
    NOT_IN_EFFECT = 2


class StartStage(IntEnum):
    """Where a command failed before its program ran."""

    NONE = 0
    STDIO = 1
    IDENTITY = 2
    CWD = 3
    EXEC = 4
    FILE = 5
    ATTACH = 6


class FileOperation(IntEnum):
    READ = 1
    WRITE = 2
    STAT = 3
    LIST = 4
    MKDIR = 5
    REMOVE = 6
    RENAME = 7
    SYMLINK = 8


class StartFlag(IntFlag):
    STDIN = 1
    MERGE = 2
    SCRIPT = 4
    WANT_STARTED = 8
    KEPT = 16
    """The command goes on when its client goes, and the helper keeps its last output."""
    TERMINAL = 32
    """Its standard streams are a terminal; stderr is merged, no descriptor follows for it."""


class Farewell(IntEnum):
    """Why a helper ends of its own accord."""

    SHUTDOWN = 1
    LIFETIME = 2
    IDLE_TIMEOUT = 3


class Question(IntEnum):
    STATUS = 1
    COMMANDS = 2
    RENEW = 3


class Meter(IntFlag):
    """Counters of a command's cgroup, in the order in which their descriptors travel."""

    MEMORY = 1
    PIDS = 2
    PIDS_ALL = 4
    CPU = 8


NO_METERS = Meter(0)

FAULTS: dict[int, Fault] = {1: "timeout", 2: "oom", 3: "cpu", 4: "output", 5: "cancelled", 6: "killed"}
LIMITS: dict[int, Limit] = {1: "pids", 2: "disk", 4: "open_files", 8: "file_size"}
FAULT_NUMBERS: dict[str, int] = {name: number for number, name in FAULTS.items()}


class ProtocolError(Exception):
    """The peer broke the protocol; what it says is not believed any further."""


@dataclass(frozen=True, slots=True)
class Report:
    """``detail``: which probe got through, for people; protocol.h and verify.c say what the numbers mean."""

    verdict: Verdict
    detail: int = 0


@dataclass(frozen=True, slots=True)
class Hello:
    """``layers``: one report for each layer that the helper speaks of, none from one that isolates nothing.
    ``filter``: a hash of the filter that it loaded, `hash_filter`'s. ``client``: 0 for whoever made the sandbox; to another
    the frame brings one descriptor, the sandbox's note.
    """

    version: int
    features: int
    landlock_abi: int = 0
    filter: int = 0
    layers: Mapping[Layer, Report] = field(default_factory=dict, hash=False)
    client: int = 0

    @property
    def contained(self) -> bool:
        """The end of the first process is the end of all: the kernel's promise for a pid namespace."""
        report = self.layers.get(Layer.PID_NAMESPACE)
        return report is not None and report.verdict is Verdict.ENFORCED


@dataclass(frozen=True, slots=True)
class StartFailed:
    errno: int
    stage: str
    subject: str


@dataclass(frozen=True, slots=True)
class Launched:
    """``door``: of a detached sandbox, the process that lets clients in; ``None`` else."""

    pid: int
    door: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """``serial``: what a kept command is called as long as the sandbox lives, 0 for another. ``first_out`` and ``first_err``:
    how many bytes of each stream came before the first that will arrive.
    """

    id: int
    pid: int
    serial: int = 0
    first_out: int = 0
    first_err: int = 0


@dataclass(frozen=True, slots=True)
class Exit:
    id: int
    wait_status: int
    fault: Fault | None
    limits: frozenset[Limit]
    start_errno: int
    start_stage: StartStage
    lingering: bool
    max_rss: int
    cpu_time: float
    duration: float


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The helper ends, and everything with it."""

    reason: Farewell


@dataclass(frozen=True, slots=True)
class Omitted:
    """Bytes of each stream that this viewer was too slow for."""

    id: int
    out: int
    err: int


Reply = Hello | StartFailed | Launched | Started | Exit | Goodbye | Omitted


class Decoder:
    """Bytes from the helper, in any pieces, to replies. Raises `ProtocolError` for what is none, and from then on for
    everything: nothing more is kept.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._broken = False

    def feed(self, data: bytes) -> Iterator[Reply]:
        if self._broken:
            raise ProtocolError("more from a peer that broke the protocol")
        self._buffer += data
        try:
            yield from self._replies()
        except ProtocolError:
            self._broken = True
            self._buffer.clear()
            raise

    def _replies(self) -> Iterator[Reply]:
        while len(self._buffer) >= HEADER.size:
            length, kind, descriptors = HEADER.unpack_from(self._buffer)
            if length > REPLY_MAX or descriptors > (kind == FrameType.HELLO):
                raise ProtocolError(f"a reply of {length} bytes with {descriptors} descriptors")
            if len(self._buffer) < HEADER.size + length:
                return
            payload = bytes(self._buffer[HEADER.size : HEADER.size + length])
            del self._buffer[: HEADER.size + length]
            reply = _decode(kind, payload)
            if isinstance(reply, Hello) and reply.version == PROTOCOL_VERSION and bool(reply.client) != bool(descriptors):
                raise ProtocolError(f"a hello to client {reply.client} with {descriptors} descriptors")
            yield reply


def _decode(kind: int, payload: bytes) -> Reply:
    try:
        if kind == FrameType.EXIT:
            return _decode_exit(payload)
        if kind == FrameType.STARTED:
            id_, pid, serial, _, first_out, first_err = _STARTED.unpack(payload)
            return Started(id_, bounded_pid(pid), serial, bounded_offset(first_out), bounded_offset(first_err))
        if kind in _RARE:
            return _RARE[kind](payload)
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"a reply of type {kind} that does not parse") from error
    raise ProtocolError(f"a reply of unknown type {kind}")


def _decode_launched(payload: bytes) -> Launched:
    if len(payload) == _PAIR.size:
        pid, door = _PAIR.unpack(payload)
        if pid == door:
            raise ValueError(f"one process for two: {pid}")
        return Launched(bounded_pid(pid), bounded_pid(door))
    return Launched(bounded_pid(int.from_bytes(exactly(payload, 4), "little")))


def _decode_error(payload: bytes) -> StartFailed:
    errno = bounded_errno(int.from_bytes(payload[:4], "little"))
    stage, _, rest = payload[4:].partition(b"\0")
    subject = rest.partition(b"\0")[0]
    return StartFailed(errno, stage.decode("utf-8", "replace"), subject.decode("utf-8", "replace"))


def _decode_goodbye(payload: bytes) -> Goodbye:
    return Goodbye(Farewell(int.from_bytes(exactly(payload, 4), "little")))


def _decode_omitted(payload: bytes) -> Omitted:
    id_, _, out, err = _OMITTED.unpack(payload)
    return Omitted(id_, bounded_offset(out), bounded_offset(err))


# Most sandboxes of a process say the same.
@lru_cache(maxsize=8)
def _decode_hello(payload: bytes) -> Hello:
    version, features = _PAIR.unpack_from(payload)
    if version != PROTOCOL_VERSION:  # the rest may mean something else there; nobody goes on with such a helper
        return Hello(version, features)
    _, _, abi, count, client, _, filter_ = _HELLO.unpack_from(payload)
    if count > len(Layer):
        raise ValueError(f"{count} layers")
    exactly(payload, _HELLO.size + count * _REPORT.size)
    layers = {
        Layer(layer): Report(Verdict(verdict), detail)
        for layer, verdict, detail in _REPORT.iter_unpack(payload[_HELLO.size :])
    }
    if len(layers) != count:
        raise ValueError("a layer twice")
    return Hello(version, features, abi, filter_, MappingProxyType(layers), client)


_RARE: dict[int, Callable[[bytes], Reply]] = {
    FrameType.HELLO: _decode_hello,
    FrameType.ERROR: _decode_error,
    FrameType.LAUNCHED: _decode_launched,
    FrameType.GOODBYE: _decode_goodbye,
    FrameType.OMITTED: _decode_omitted,
}


def _decode_exit(payload: bytes) -> Exit:
    id_, status, fault, limits, errno, stage, lingering, rss_kb, user, system, duration = _EXIT.unpack(payload)
    return Exit(
        id=id_,
        wait_status=bounded_death(status),
        fault=known_fault(fault),
        limits=_limits(limits),
        start_errno=bounded_errno(errno),
        start_stage=StartStage(stage),
        lingering=bool(lingering),
        max_rss=rss_kb * 1024,
        cpu_time=(user + system) / 1e6,
        duration=duration / 1e6,
    )


def known_fault(number: int) -> Fault | None:
    if number and number not in FAULTS:
        raise ValueError(f"unknown fault {number}")
    return FAULTS.get(number)


def _limits(bits: int) -> frozenset[Limit]:
    if bits & ~sum(LIMITS):
        raise ValueError(f"unknown limits {bits:#x}")
    return frozenset(name for bit, name in LIMITS.items() if bits & bit)


@lru_cache(maxsize=16)
def hash_filter(program: bytes) -> int:
    """FNV-1a over the instructions of a filter, 8 bytes each: what the helper says of the one that it loaded."""
    value = 0xCBF29CE484222325
    for (instruction,) in struct.iter_unpack("<Q", program):
        value = (value ^ instruction) * 0x100000001B3 & 0xFFFF_FFFF_FFFF_FFFF
    return value
