"""The helper's half of the wire: requests in, reports out. The host's half is _shared/protocol.py, the reference protocol.h."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag

VERSION = 4
FEATURE_FDS = 1
# A START with 1 MiB of argv and as much environment fits; more is refused.
FRAME_MAX = 4 << 20
DESCRIPTORS_MAX = 32

_HEADER = struct.Struct("<IHH")
_START = struct.Struct("<9IHHQ")
_EXIT = struct.Struct("<IiIIIIIIQQQ")
_STARTED = struct.Struct("<IIIIQQ")
PAIR = struct.Struct("<II")
ASK = struct.Struct("<IIQ")


class Frame(IntEnum):
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


class Limit(IntFlag):
    """What was refused; the bits of the native helper's report that this one can see."""

    NONE = 0
    OPEN_FILES = 4
    FILE_SIZE = 8


class Fault(IntEnum):
    NONE = 0
    TIMEOUT = 1
    OOM = 2
    CPU = 3
    OUTPUT = 4
    CANCELLED = 5
    KILLED = 6


class Stage(IntEnum):
    NONE = 0
    STDIO = 1
    IDENTITY = 2
    CWD = 3
    EXEC = 4
    FILE = 5
    ATTACH = 6


class Flag(IntFlag):
    STDIN = 1
    MERGE = 2
    SCRIPT = 4
    WANT_STARTED = 8
    KEPT = 16
    TERMINAL = 32


class Farewell(IntEnum):
    SHUTDOWN = 1
    LIFETIME = 2
    IDLE_TIMEOUT = 3


class Question(IntEnum):
    STATUS = 1
    COMMANDS = 2
    RENEW = 3


class HelperError(Exception):
    """Reason to end the helper, told to the host in an ERROR frame."""

    def __init__(self, number: int, stage: str, subject: str) -> None:
        self.number, self.stage, self.subject = number, stage, subject
        super().__init__(f"{stage} {subject}")


def broken(why: str) -> HelperError:
    return HelperError(errno.EPROTO, "protocol", why)


@dataclass(frozen=True, slots=True)
class Start:
    """One request. ``operation`` 0 runs ``argv``; another is a file operation on it."""

    id: int
    flags: Flag
    timeout_ms: int
    operation: int
    cwd: bytes
    argv: list[bytes]
    env: list[bytes]


@dataclass(frozen=True, slots=True)
class Pipes:
    """Descriptors of one command; -1 for those it does not have."""

    status: int
    out: int
    err: int = -1
    stdin: int = -1
    script: int = -1

    def all(self) -> list[int]:
        return [fd for fd in (self.status, self.out, self.err, self.stdin, self.script) if fd >= 0]


def parse_start(payload: bytes) -> Start:
    if len(payload) <= _START.size or payload[-1]:
        raise broken("START is too short")
    id_, flags, timeout_ms, operation, argc, envc, joins, meters, *_ = _START.unpack_from(payload)
    texts = payload[_START.size : -1].split(b"\0")
    if joins or meters:
        raise broken("cgroup descriptors")  # the native helper's business
    if flags & (Flag.KEPT | Flag.TERMINAL):
        raise broken("a relayed command")  # so is that
    if argc == 0 or len(texts) != 1 + argc + envc:
        raise broken("string counts")
    return Start(id_, Flag(flags & 15), timeout_ms, operation, texts[0], texts[1 : argc + 1], texts[argc + 1 :])


def parse_pipes(flags: Flag, fds: Sequence[int]) -> Pipes:
    """The descriptors in the order of protocol.h."""
    left = list(fds)
    try:
        status, out = left.pop(0), left.pop(0)
        err = -1 if Flag.MERGE in flags else left.pop(0)
        stdin = left.pop(0) if Flag.STDIN in flags else -1
        script = left.pop(0) if Flag.SCRIPT in flags else -1
    except IndexError:
        raise broken("descriptor missing") from None
    if left:
        raise broken("descriptors left over")
    return Pipes(status, out, err, stdin, script)


class Inbox:
    """Bytes and descriptors from the host, in any pieces, to whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._fds: list[int] = []

    def feed(self, data: bytes, fds: Sequence[int]) -> Iterator[tuple[int, bytes, list[int]]]:
        self._buffer += data
        self._fds += fds
        if len(self._fds) > DESCRIPTORS_MAX:
            raise broken("descriptors without frames")
        while len(self._buffer) >= _HEADER.size:
            length, kind, count = _HEADER.unpack_from(self._buffer)
            if length > FRAME_MAX:
                raise broken("frame too long")
            if len(self._buffer) < _HEADER.size + length:
                return
            if count > len(self._fds):
                raise broken("descriptors missing")
            payload = bytes(self._buffer[_HEADER.size : _HEADER.size + length])
            del self._buffer[: _HEADER.size + length]
            theirs, self._fds = self._fds[:count], self._fds[count:]
            yield kind, payload, theirs


def encode_started(id: int, pid: int) -> bytes:
    """Of a command that is not kept: without a serial number, and nothing of its output came before."""
    return _STARTED.pack(id, pid, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ExitReport:
    """What became of a command; times in seconds."""

    id: int
    wait_status: int
    fault: int = 0
    start_errno: int = 0
    start_stage: int = 0
    lingering: int = 0
    maxrss_kb: int = 0
    user: float = 0.0
    system: float = 0.0
    duration: float = 0.0
    limits: int = 0

    def encode(self) -> bytes:
        times = (int(seconds * 1e6) for seconds in (self.user, self.system, self.duration))
        failure = (self.start_errno, self.start_stage)
        return _EXIT.pack(self.id, self.wait_status, self.fault, self.limits, *failure, self.lingering, self.maxrss_kb, *times)


def send(fd: int, kind: Frame, payload: bytes) -> None:
    """A frame is shorter than a pipe takes at once; a host that is gone is told nothing."""
    try:
        write_all(fd, _HEADER.pack(len(payload), kind, 0) + payload)
    except OSError:
        return


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
