"""What a host says to a helper: frames, as bytes. The order of the descriptors that travel with them is protocol.h's."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isandbox_backends._shared.protocol import FAULT_NUMBERS, HEADER, NO_METERS, FrameType, Meter, Question, StartFlag

KEEP_MOST = 16 << 20
"""Bytes of one stream of a relayed command that a helper keeps at the most."""
FROM_NOW_ON = (1 << 64) - 1
"""The offset of `encode_attach` for: only what comes from now on."""
_START = struct.Struct("<9IHHQ")
_PAIR = struct.Struct("<II")
_RESIZE = struct.Struct("<IHH")
_ATTACH = struct.Struct("<IIIIQQ")
_ASK = struct.Struct("<IIQ")


@dataclass(frozen=True, slots=True)
class Relaying:
    """What START says of a relayed command: see `encode_start`."""

    keep: int = 0
    rows: int = 0
    columns: int = 0
    output_quota: int = 0


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
    keep: int = 0,
    rows: int = 0,
    columns: int = 0,
    output_quota: int = 0,
) -> bytes:
    """A START frame. ``timeout`` is rounded up to a millisecond. ``joins`` of the descriptors are cgroups to join, ``meters``
    tells which of its counters follow. ``keep``: bytes kept of each stream of a relayed command. ``output_quota``: bytes of
    all streams of a kept command, after which it is ended; 0 for no end.
    """
    strings = [cwd, *argv, *(f"{name}={value}" for name, value in env.items())]
    body = "\0".join(strings).encode("utf-8", "surrogateescape") + b"\0"
    timeout_ms = 0 if timeout is None else max(1, -int(-timeout * 1000 // 1))
    counts = (operation, len(argv), len(env), joins, meters)
    request = _START.pack(id, flags, timeout_ms, *counts, keep, rows, columns, output_quota)
    return HEADER.pack(len(request) + len(body), FrameType.START, descriptors) + request + body


def encode_kill(id: int, fault: str) -> bytes:
    return _frame(FrameType.KILL, _PAIR.pack(id, FAULT_NUMBERS[fault]))


def encode_signal(id: int, number: int) -> bytes:
    return _frame(FrameType.SIGNAL, _PAIR.pack(id, number))


def encode_resize(id: int, rows: int, columns: int) -> bytes:
    return _frame(FrameType.RESIZE, _RESIZE.pack(id, rows, columns))


def encode_attach(
    id: int, serial: int, *, flags: StartFlag, since_out: int = 0, since_err: int = 0, descriptors: int
) -> bytes:
    """An ATTACH frame: the kept command ``serial`` gets one more viewer, to which it is ``id``. ``flags``: `StartFlag.STDIN`
    and `StartFlag.MERGE` tell which descriptors follow. ``since_*``: the first byte wanted, or `FROM_NOW_ON`.
    """
    payload = _ATTACH.pack(id, serial, flags & (StartFlag.STDIN | StartFlag.MERGE), 0, since_out, since_err)
    return _frame(FrameType.ATTACH, payload, descriptors)


def encode_ask(what: Question, *, id: int = 0, value: int = 0) -> bytes:
    """An ASK frame, with which the descriptor travels that the answer is written to. ``value``: milliseconds, of RENEW."""
    return _frame(FrameType.ASK, _ASK.pack(what, id, value), 1)


def encode_shutdown() -> bytes:
    return _frame(FrameType.SHUTDOWN, b"")


def encode_release() -> bytes:
    return _frame(FrameType.RELEASE, b"")


def encode_stdin_eof(id: int) -> bytes:
    return _frame(FrameType.STDIN_EOF, id.to_bytes(4, "little"))


def _frame(kind: FrameType, payload: bytes, descriptors: int = 0) -> bytes:
    return HEADER.pack(len(payload), kind, descriptors) + payload
