"""What a helper writes to the descriptor that travelled with a question. As hostile as its frames: every length and number is
bounded before it is believed. The C half is backends/helper/protocol.h.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from isandbox.records import Fault
from isandbox_backends._shared.bounds import bounded_death, bounded_offset, bounded_pid
from isandbox_backends._shared.protocol import ProtocolError, known_fault

STATUS_VERSION = 1
COMMANDS_MOST = 64
ANSWER_MAX = 64 << 10
"""Bytes of an answer; a host reads no more of it."""
_RECORD_MOST = 1000
_STATUS = struct.Struct("<IIIIQQQ")
_COUNT = struct.Struct("<II")
_COMMAND = struct.Struct("<IIIiIIQQQQQ256s")
_NEVER = (1 << 64) - 1
# A thousand years: more than a sandbox lives, and a date still has room for it.
_MS_MOST = 1000 * 366 * 86_400 * 1000
_RUNNING, _ENDED = 1, 2
_TERMINAL, _STDIN = 1, 2


@dataclass(frozen=True, slots=True)
class Status:
    """``commands`` run at this moment, kept ones among them; ``kept``: those that can be attached to, ended ones among them.
    Times are seconds; ``lifetime_left`` and ``idle_timeout`` are ``None`` where there is no such end.
    """

    clients: int
    commands: int
    kept: int
    lifetime_left: float | None
    idle_timeout: float | None
    age: float


@dataclass(frozen=True, slots=True)
class KeptCommand:
    """``wait_status`` and ``fault`` mean nothing while it runs. ``age``: seconds since its start. ``written``: bytes of each
    stream, ``first``: of them, how many are not kept any more.
    """

    serial: int
    pid: int
    running: bool
    wait_status: int
    fault: Fault | None
    terminal: bool
    stdin: bool
    age: float
    written: tuple[int, int]
    first: tuple[int, int]
    name: str


def decode_status(answer: bytes) -> Status:
    """The whole answer to STATUS or RENEW. Raises `ProtocolError` for what is none, or an empty one: it was not answered."""
    if len(answer) != _STATUS.size:
        raise ProtocolError(f"a status of {len(answer)} bytes")
    version, clients, commands, kept, left, idle, age = _STATUS.unpack(answer)
    if version != STATUS_VERSION:
        raise ProtocolError(f"a status of version {version}")
    return Status(
        clients=clients,
        commands=commands,
        kept=kept,
        lifetime_left=None if left == _NEVER else _seconds(left),
        idle_timeout=_seconds(idle) if idle else None,
        age=_seconds(age),
    )


def decode_commands(answer: bytes) -> list[KeptCommand]:
    """The whole answer to COMMANDS, newest last. A later helper's records may be longer: what follows is left alone. Raises
    `ProtocolError` as `decode_status` does.
    """
    if len(answer) < _COUNT.size:
        raise ProtocolError(f"a list of commands in {len(answer)} bytes")
    count, size = _COUNT.unpack_from(answer)
    if count > COMMANDS_MOST or not _COMMAND.size <= size <= _RECORD_MOST or len(answer) != _COUNT.size + count * size:
        raise ProtocolError(f"{count} commands of {size} bytes in {len(answer)}")
    try:
        found = [_command(answer, _COUNT.size + number * size) for number in range(count)]
    except ValueError as error:
        raise ProtocolError("a command that cannot be") from error
    if len({command.serial for command in found}) != count:
        raise ProtocolError("a command twice")
    return found


def _command(answer: bytes, at: int) -> KeptCommand:
    serial, pid, state, status, fault, flags, age, *offsets, name = _COMMAND.unpack_from(answer, at)
    written, first = (offsets[0], offsets[1]), (offsets[2], offsets[3])
    if not serial or state not in {_RUNNING, _ENDED} or flags & ~(_TERMINAL | _STDIN):
        raise ValueError(f"command {serial} in state {state}")
    if first[0] > written[0] or first[1] > written[1]:
        raise ValueError(f"{first} of {written} bytes are not kept")
    for offset in written:
        bounded_offset(offset)
    return KeptCommand(
        serial=serial,
        pid=bounded_pid(pid) if pid or state == _RUNNING else 0,
        running=state == _RUNNING,
        wait_status=bounded_death(status) if state == _ENDED else 0,
        fault=known_fault(fault),
        terminal=bool(flags & _TERMINAL),
        stdin=bool(flags & _STDIN),
        age=_seconds(age),
        written=written,
        first=first,
        name=name.partition(b"\0")[0].decode("utf-8", "replace"),
    )


def _seconds(milliseconds: int) -> float:
    if milliseconds > _MS_MOST:
        raise ProtocolError(f"{milliseconds} milliseconds")
    return milliseconds / 1000
