"""The wire between host and helper, without any I/O (as h11 does it). The C half is backends/helper/protocol.h.

A frame is u32 payload length, u16 type, u16 number of descriptors that travel with it, payload; little-endian. A hostile
helper may say anything: every length is bounded before it is believed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from functools import lru_cache
from types import MappingProxyType

from isandbox.records import Fault, Limit

PROTOCOL_VERSION = 3
FEATURE_FDS = 1
# What a helper may send in one frame: an error with two texts is the longest.
REPLY_MAX = 4096
_HEADER = struct.Struct("<IHH")
_EXIT = struct.Struct("<IiIIIIIIQQQ")
_START = struct.Struct("<8I")
_PAIR = struct.Struct("<II")
_HELLO = struct.Struct("<IIIIQ")
_REPORT = struct.Struct("<HHI")
# What an errno and a pid can be: MAX_ERRNO of linux/err.h, PID_MAX_LIMIT. Python takes neither past 31 bits.
_ERRNO_MAX = 4095
_PID_MAX = 1 << 22
_SIGNAL_MAX = 64  # _NSIG


class FrameType(IntEnum):
    HELLO = 1
    ERROR = 2
    LAUNCHED = 3
    STARTED = 4
    EXIT = 5
    START = 16
    KILL = 17
    SIGNAL = 18


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
    ``filter``: a hash of the filter that it loaded, `hash_filter`'s.
    """

    version: int
    features: int
    landlock_abi: int = 0
    filter: int = 0
    layers: Mapping[Layer, Report] = field(default_factory=dict, hash=False)

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
    pid: int


@dataclass(frozen=True, slots=True)
class Started:
    id: int
    pid: int


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


Reply = Hello | StartFailed | Launched | Started | Exit


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
        while len(self._buffer) >= _HEADER.size:
            length, kind, descriptors = _HEADER.unpack_from(self._buffer)
            if length > REPLY_MAX or descriptors:
                raise ProtocolError(f"a reply of {length} bytes with {descriptors} descriptors")
            if len(self._buffer) < _HEADER.size + length:
                return
            payload = bytes(self._buffer[_HEADER.size : _HEADER.size + length])
            del self._buffer[: _HEADER.size + length]
            yield _decode(kind, payload)


def _decode(kind: int, payload: bytes) -> Reply:
    try:
        if kind == FrameType.EXIT:
            return _decode_exit(payload)
        if kind == FrameType.STARTED:
            id_, pid = _PAIR.unpack(payload)
            return Started(id_, _pid(pid))
        if kind == FrameType.LAUNCHED:
            return Launched(_pid(int.from_bytes(_exactly(payload, 4), "little")))
        if kind == FrameType.HELLO:
            return _decode_hello(payload)
        if kind == FrameType.ERROR:
            errno = _errno(int.from_bytes(payload[:4], "little"))
            stage, _, rest = payload[4:].partition(b"\0")
            subject = rest.partition(b"\0")[0]
            return StartFailed(errno, stage.decode("utf-8", "replace"), subject.decode("utf-8", "replace"))
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"a reply of type {kind} that does not parse") from error
    raise ProtocolError(f"a reply of unknown type {kind}")


# Most sandboxes of a process say the same.
@lru_cache(maxsize=8)
def _decode_hello(payload: bytes) -> Hello:
    version, features = _PAIR.unpack_from(payload)
    if version != PROTOCOL_VERSION:  # the rest may mean something else there; nobody goes on with such a helper
        return Hello(version, features)
    _, _, abi, count, filter_ = _HELLO.unpack_from(payload)
    if count > len(Layer):
        raise ValueError(f"{count} layers")
    _exactly(payload, _HELLO.size + count * _REPORT.size)
    layers = {
        Layer(layer): Report(Verdict(verdict), detail)
        for layer, verdict, detail in _REPORT.iter_unpack(payload[_HELLO.size :])
    }
    if len(layers) != count:
        raise ValueError("a layer twice")
    return Hello(version, features, abi, filter_, MappingProxyType(layers))


def _decode_exit(payload: bytes) -> Exit:
    id_, status, fault, limits, errno, stage, lingering, rss_kb, user, system, duration = _EXIT.unpack(payload)
    return Exit(
        id=id_,
        wait_status=_death(status),
        fault=_fault(fault),
        limits=_limits(limits),
        start_errno=_errno(errno),
        start_stage=StartStage(stage),
        lingering=bool(lingering),
        max_rss=rss_kb * 1024,
        cpu_time=(user + system) / 1e6,
        duration=duration / 1e6,
    )


def _death(status: int) -> int:
    """A wait status that says how a process ended: its exit code, or a signal's number and whether core was dumped."""
    exited = not status & ~0xFF00
    signalled = not status & ~0xFF and 1 <= status & 0x7F <= _SIGNAL_MAX
    if not exited and not signalled:
        raise ValueError(f"not the end of a process: {status}")
    return status


def _fault(number: int) -> Fault | None:
    if number and number not in FAULTS:
        raise ValueError(f"unknown fault {number}")
    return FAULTS.get(number)


def _limits(bits: int) -> frozenset[Limit]:
    if bits & ~sum(LIMITS):
        raise ValueError(f"unknown limits {bits:#x}")
    return frozenset(name for bit, name in LIMITS.items() if bits & bit)


def _errno(number: int) -> int:
    if number > _ERRNO_MAX:
        raise ValueError(f"no errno: {number}")
    return number


def _pid(number: int) -> int:
    if not 0 < number <= _PID_MAX:
        raise ValueError(f"no pid: {number}")
    return number


def _exactly(payload: bytes, length: int) -> bytes:
    if len(payload) != length:
        raise ValueError(f"{len(payload)} bytes, not {length}")
    return payload


@lru_cache(maxsize=16)
def hash_filter(program: bytes) -> int:
    """FNV-1a over the instructions of a filter, 8 bytes each: what the helper says of the one that it loaded."""
    value = 0xCBF29CE484222325
    for (instruction,) in struct.iter_unpack("<Q", program):
        value = (value ^ instruction) * 0x100000001B3 & 0xFFFF_FFFF_FFFF_FFFF
    return value


def encode_start(
    id: int,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    *,
    flags: StartFlag,
    timeout: float | None,
    descriptors: int,
    operation: int = 0,
    joins: int = 0,
    meters: Meter = NO_METERS,
) -> bytes:
    """A START frame. ``timeout`` is rounded up to a millisecond; the descriptors' order is protocol.h's.
    ``joins`` of them are cgroups to join, ``meters`` tells which of its counters follow.
    """
    strings = [cwd, *argv, *(f"{name}={value}" for name, value in env.items())]
    body = "\0".join(strings).encode("utf-8", "surrogateescape") + b"\0"
    timeout_ms = 0 if timeout is None else max(1, -int(-timeout * 1000 // 1))
    request = _START.pack(id, flags, timeout_ms, operation, len(argv), len(env), joins, meters)
    return _HEADER.pack(len(request) + len(body), FrameType.START, descriptors) + request + body


def encode_kill(id: int, fault: str) -> bytes:
    return _HEADER.pack(_PAIR.size, FrameType.KILL, 0) + _PAIR.pack(id, FAULT_NUMBERS[fault])


def encode_signal(id: int, number: int) -> bytes:
    return _HEADER.pack(_PAIR.size, FrameType.SIGNAL, 0) + _PAIR.pack(id, number)
