"""A command whose output the helper reads: its end comes after its output, and not all of the output need come."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from isandbox import Offsets, ProcessSpec, SandboxClosedError, SandboxLostError
from isandbox_backends._shared.exchange import ANSWER, IDLE, START_ANSWER, Exchange
from isandbox_backends._shared.protocol import StartStage


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack("<IHH", len(payload), kind, 0) + payload


def started(serial: int = 3, first: tuple[int, int] = (0, 0)) -> bytes:
    return frame(4, struct.pack("<IIIIQQ", 1, 77, serial, 0, *first))


def omitted(out: int, err: int) -> bytes:
    return frame(7, struct.pack("<IIQQ", 1, 0, out, err))


def report(stage: int = 0, start_errno: int = 0) -> bytes:
    return frame(5, struct.pack("<IiIIIIIIQQQ", 1, 0, 0, 0, start_errno, stage, 0, 4, 0, 0, 0))


def exchange(now: float = 0.0, **options: Any) -> Exchange:
    spec = ProcessSpec(**{"argv": ("prog",), "timeout": None, "background": True, **options})
    return Exchange(spec, now, relayed=True)


def offsets(x: Exchange) -> Offsets:
    return Offsets(x.offset("stdout"), x.offset("stderr"))


def test_nothing_is_late_while_nobody_reads() -> None:
    """A time-out that has long passed loses no sandbox whose output nobody has read: the report waits behind it."""
    x = exchange(timeout=1.0)
    assert x.due() is None
    x.advance(1000.0)
    assert not x.finished
    x.resume(1000.0)
    assert x.due() == pytest.approx(1001.0 + ANSWER)
    x.pause(1000.5)
    x.advance(5000.0)
    x.resume(5000.0)
    assert x.due() == pytest.approx(5000.5 + ANSWER)


def test_an_end_that_does_not_come_is_a_loss() -> None:
    """Read to where nothing comes any more, a command that is overdue is lost as any other is."""
    x = exchange(timeout=1.0)
    x.resume(0.0)
    x.output("stdout", b"x", 4.0)
    assert x.due() == pytest.approx(4.0 + ANSWER)
    x.advance(4.0 + ANSWER)
    x.advance(4.0 + ANSWER + IDLE)
    assert x.finished
    with pytest.raises(SandboxLostError):
        x.result()


def test_a_start_that_is_never_told_is_a_loss() -> None:
    """Whoever waits for it is not kept for ever, though nobody reads the output yet; once it is told nothing is late again."""
    x = exchange()
    x.wants_start = True
    assert x.due() == START_ANSWER
    x.advance(START_ANSWER)
    assert x.due() == START_ANSWER + IDLE
    told = exchange()
    told.wants_start = True
    told.advance(START_ANSWER)
    told.status(started(), START_ANSWER)
    assert told.due() is None
    x.advance(START_ANSWER + IDLE)
    with pytest.raises(SandboxLostError, match="start of a command"):
        x.result()


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_kill_after_a_pause(timeout: float | None) -> None:
    """The end must be reported soon after a kill, however long nobody had read before."""
    x = exchange(timeout=timeout)
    x.status(started(), 0.0)
    x.expect_end(50.0)
    x.resume(50.0)
    assert x.due() == 50.0 + ANSWER


def test_offsets_count_from_where_the_handle_began() -> None:
    """What came before a viewer, what it has had and what it was told to have missed are its place in the stream."""
    x = exchange()
    x.status(started(first=(100, 7)), 0.0)
    assert (x.serial, x.pid, offsets(x)) == (3, 77, Offsets(100, 7))
    x.output("stdout", b"12345", 1.0)
    assert offsets(x) == Offsets(105, 7)
    x.status(omitted(1000, 1), 2.0)
    assert offsets(x) == Offsets(1105, 8)


def test_what_was_missed_is_in_the_result() -> None:
    """Bytes that the helper dropped count as omitted, beside those that were not kept here."""
    x = exchange(max_output=4)
    x.resume(0.0)
    x.output("stdout", b"0123456789", 1.0)
    x.status(started() + omitted(50, 5) + report(), 2.0)
    for stream in ("stdout", "stderr"):
        x.output_ended(stream)
    x.advance(2.0)
    result = x.result()
    assert (result.omitted.stdout, result.omitted.stderr, result.truncated) == (56, 5, True)


@pytest.mark.parametrize(
    "told", [omitted(1, 1) + omitted(1, 1), report() + omitted(1, 1), report() + started(), started() + started()]
)
def test_a_viewer_is_told_each_thing_once(told: bytes) -> None:
    """OMITTED twice, or anything after EXIT, breaks the protocol."""
    x = exchange()
    x.status(told, 0.0)
    assert x.distrusted


@pytest.mark.parametrize(
    "told",
    [started(first=(1 << 63, 0)), started(first=(0, (1 << 64) - 1)), omitted(1 << 62, 0), omitted(0, (1 << 64) - 1)],
    ids=["first", "first of stderr", "omitted", "omitted of stderr"],
)
def test_an_offset_that_cannot_be(told: bytes) -> None:
    """The most that is believed is an offset that can be asked for, whatever comes on top; more breaks the protocol."""
    x = exchange()
    x.status(started(first=(1 << 61, 1 << 61)) + omitted(1 << 61, 1 << 61), 0.0)
    assert offsets(x).stdout == 1 << 62
    broken = exchange()
    broken.status(told, 0.0)
    assert broken.distrusted


def test_who_reads_itself_misses_nothing() -> None:
    """OMITTED for a command with pipes of its own breaks the protocol."""
    x = Exchange(ProcessSpec(argv=("prog",)), 0.0)
    x.status(omitted(1, 1), 0.0)
    assert x.distrusted


def test_a_handle_that_was_let_go_has_no_result() -> None:
    """Neither a loss nor a result: SandboxClosedError; what had ended before keeps its result."""
    x = exchange()
    x.let_go()
    assert x.finished
    assert x.lost is None
    with pytest.raises(SandboxClosedError, match="let go"):
        x.result()


def test_a_command_that_is_gone_is_known_by_its_stage() -> None:
    """What could not be attached to is told from what did not start."""
    x = exchange()
    x.resume(0.0)
    x.status(report(stage=6, start_errno=3), 0.0)
    assert (x.exited, x.start_stage, x.serial) == (True, StartStage.ATTACH, None)
