"""Answers to a client's questions: what they mean, and what is none."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import Offsets
from isandbox_backends._shared.answers import COMMANDS_MOST, KeptCommand, Status, decode_commands, decode_status
from isandbox_backends._shared.kept import _describe as describe
from isandbox_backends._shared.protocol import ProtocolError

NEVER = (1 << 64) - 1


def status(version: int = 1, left: int = 1500, idle: int = 0, age: int = 10_000) -> bytes:
    return struct.pack("<IIIIQQQ", version, 2, 3, 1, left, idle, age)


def record(serial: int = 1, **other: Any) -> bytes:
    """The one place here that knows the layout of a record."""
    words = (other.get("pid", 77), other.get("state", 1), other.get("wait", 0), other.get("fault", 0), other.get("flags", 0))
    offsets = (other.get("written", 100), 5, other.get("first", 0), other.get("first_err", 5))
    return struct.pack("<IIIiIIQQQQQ256s", serial, *words, other.get("age", 2500), *offsets, other.get("name", b"sleep 9"))


def commands(*records: bytes, count: int | None = None, size: int = 320) -> bytes:
    return struct.pack("<II", len(records) if count is None else count, size) + b"".join(records)


def test_a_status() -> None:
    """Times are seconds; an end that there is not is None."""
    assert decode_status(status(idle=5000)) == Status(2, 3, 1, 1.5, 5.0, 10.0)
    assert decode_status(status(left=NEVER)) == Status(2, 3, 1, None, None, 10.0)
    assert decode_status(status(left=0)).lifetime_left == 0.0


def test_commands() -> None:
    """Running and ended ones, with what is kept of their output; a later helper's longer records are read too."""
    ended = record(2, state=2, pid=0, wait=9, fault=6, flags=3, first=40, name=b"\xff" * 256)
    first = KeptCommand(1, 77, True, 0, None, False, False, 2.5, (100, 5), (0, 5), "sleep 9")
    last = KeptCommand(2, 0, False, 9, "killed", True, True, 2.5, (100, 5), (40, 5), "\ufffd" * 256)
    assert decode_commands(commands(record(1), ended)) == [first, last]
    assert decode_commands(commands(record(1) + b"later!!!", ended + bytes(8), size=328)) == [first, last]
    assert decode_commands(commands()) == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="none"),
        pytest.param(status()[:-1], id="a short one"),
        pytest.param(status() + b"x", id="a long one"),
        pytest.param(status(version=2), id="another version"),
        pytest.param(status(age=NEVER), id="an age without end"),
        pytest.param(status(left=NEVER - 1), id="the age of the world"),
    ],
)
def test_what_is_no_status(answer: bytes) -> None:
    """Length, version and times are checked before they are believed."""
    with pytest.raises(ProtocolError):
        decode_status(answer)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="none"),
        pytest.param(commands(count=1), id="a missing record"),
        pytest.param(commands(record(), count=0), id="a record too many"),
        pytest.param(commands(count=1 << 31), id="a count past everything"),
        pytest.param(commands(*(record(n) for n in range(1, COMMANDS_MOST + 2))), id="one more than there may be"),
        pytest.param(commands(record()[:-8], size=312), id="records that are too short"),
        pytest.param(commands(record() + bytes(1000), size=1320), id="records that are too long"),
        pytest.param(commands(record(), record()), id="a command twice"),
        pytest.param(commands(record(0)), id="serial 0"),
        pytest.param(commands(record(state=0)), id="an unknown state"),
        pytest.param(commands(record(age=1 << 53)), id="older than dates are"),
        pytest.param(commands(record(pid=0)), id="pid 0 of one that runs"),
        pytest.param(commands(record(pid=1 << 31)), id="a pid past 31 bits"),
        pytest.param(commands(record(state=2, wait=0x7F)), id="an end that is none"),
        pytest.param(commands(record(fault=7)), id="an unknown fault"),
        pytest.param(commands(record(flags=4)), id="an unknown flag"),
        pytest.param(commands(record(first=101)), id="less written than is gone"),
        pytest.param(commands(record(first_err=6)), id="less written than is gone, on stderr"),
        pytest.param(commands(record(age=NEVER)), id="an age without end"),
    ],
)
def test_what_is_no_list_of_commands(answer: bytes) -> None:
    """Counts, lengths and numbers are checked before they are believed."""
    with pytest.raises(ProtocolError):
        decode_commands(answer)


@given(st.binary(max_size=700))
def test_arbitrary_answers(answer: bytes) -> None:
    """A hostile helper can answer anything; nothing but ProtocolError comes of it."""
    for decode in (decode_status, decode_commands):
        try:
            decode(answer)
        except ProtocolError:
            continue


@given(st.lists(st.binary(min_size=320, max_size=320), max_size=3))
def test_well_framed_records_of_nonsense(records: list[bytes]) -> None:
    """A list of the right length with any records parses or is a ProtocolError."""
    try:
        found = decode_commands(commands(*records))
    except ProtocolError:
        return
    assert len(found) == len(records)


LARGE = st.sampled_from([0, 1, 1 << 40, 1 << 53, 1 << 61, (1 << 61) + 1, 1 << 63, NEVER])


@given(age=LARGE, written=LARGE, first=LARGE)
def test_what_is_believed_can_be_said(age: int, written: int, first: int) -> None:
    """No number of a helper's is an error of another kind, later, where it becomes a date or an offset."""
    try:
        (found,) = decode_commands(commands(record(age=age, written=written, first=first)))
    except ProtocolError:
        assert max(age, written, first) > 1 << 40 or first > written
        return
    assert describe(found).written == Offsets(written, 5)
