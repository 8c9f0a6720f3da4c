"""The wire: what a helper may say, in any pieces, and what the host says to it."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox_backends._shared.protocol import (
    REPLY_MAX,
    Decoder,
    Exit,
    Farewell,
    Goodbye,
    Hello,
    Launched,
    Layer,
    Omitted,
    ProtocolError,
    Question,
    Report,
    Started,
    StartFailed,
    StartFlag,
    StartStage,
    Verdict,
)
from isandbox_backends._shared.requests import (
    FROM_NOW_ON,
    encode_ask,
    encode_attach,
    encode_kill,
    encode_release,
    encode_resize,
    encode_shutdown,
    encode_signal,
    encode_start,
    encode_stdin_eof,
)


def frame(kind: int, payload: bytes, descriptors: int = 0) -> bytes:
    return struct.pack("<IHH", len(payload), kind, descriptors) + payload


def exit_frame(*, fault: int = 0, stage: int = 0, errno: int = 0, limits: int = 0) -> bytes:
    return frame(5, struct.pack("<IiIIIIIIQQQ", 7, 9, fault, limits, errno, stage, 1, 2048, 1_500_000, 500_000, 3_000_000))


def hello(count: int, reports: bytes) -> bytes:
    return struct.pack("<IIIIIIQ", 4, 1, 6, count, 0, 0, 7) + reports


NONE: frozenset[Any] = frozenset()
EVERY = frozenset({"pids", "disk", "open_files", "file_size"})
REPLIES: list[tuple[bytes, Any]] = [
    (frame(1, struct.pack("<IIIIIIQ", 4, 1, 6, 0, 0, 0, 7)), Hello(4, 1, 6, 7)),
    (frame(1, struct.pack("<IIIIIIQ", 4, 1, 6, 0, 9, 0, 7), descriptors=1), Hello(4, 1, 6, 7, client=9)),
    (
        frame(1, struct.pack("<IIIIIIQ", 4, 1, 6, 2, 0, 0, 1 << 63) + struct.pack("<HHIHHI", 16, 0, 0, 17, 2, 5)),
        Hello(4, 1, 6, 1 << 63, {Layer.LANDLOCK: Report(Verdict.ENFORCED), Layer.SECCOMP: Report(Verdict.NOT_IN_EFFECT, 5)}),
    ),
    (frame(1, struct.pack("<IIII", 3, 1, 6, 15)), Hello(3, 1)),
    (frame(1, struct.pack("<II", 9, 1) + b"whatever a later one says"), Hello(9, 1)),
    (frame(2, struct.pack("<I", 13) + b"mount proc\0/proc\0"), StartFailed(13, "mount proc", "/proc")),
    (frame(2, struct.pack("<I", 1) + b"no end"), StartFailed(1, "no end", "")),
    (frame(2, struct.pack("<I", 1) + b"\xff\0\xfe\0"), StartFailed(1, "\ufffd", "\ufffd")),
    (frame(3, struct.pack("<I", 4242)), Launched(4242)),
    (frame(3, struct.pack("<II", 4242, 4243)), Launched(4242, 4243)),
    (frame(4, struct.pack("<IIIIQQ", 3, 17, 0, 0, 0, 0)), Started(3, 17)),
    (frame(4, struct.pack("<IIIIQQ", 3, 17, 5, 0, 1 << 40, 2)), Started(3, 17, 5, 1 << 40, 2)),
    (frame(6, struct.pack("<I", 2)), Goodbye(Farewell.LIFETIME)),
    (frame(7, struct.pack("<IIQQ", 3, 0, 1 << 40, 0)), Omitted(3, 1 << 40, 0)),
    (exit_frame(), Exit(7, 9, None, NONE, 0, StartStage.NONE, lingering=True, max_rss=2 << 20, cpu_time=2.0, duration=3.0)),
    *(
        (exit_frame(fault=number), Exit(7, 9, name, NONE, 0, StartStage.NONE, True, 2 << 20, 2.0, 3.0))  # type: ignore[arg-type]
        for number, name in enumerate(("timeout", "oom", "cpu", "output", "cancelled", "killed"), 1)
    ),
    (exit_frame(limits=15), Exit(7, 9, None, EVERY, 0, StartStage.NONE, True, 2 << 20, 2.0, 3.0)),
    (exit_frame(stage=3, errno=2), Exit(7, 9, None, NONE, 2, StartStage.CWD, True, 2 << 20, 2.0, 3.0)),
]


@pytest.mark.parametrize(("raw", "reply"), REPLIES, ids=lambda value: type(value).__name__)
def test_every_reply(raw: bytes, reply: Any) -> None:
    """Each frame means what protocol.h says."""
    assert list(Decoder().feed(raw)) == [reply]


@given(st.lists(st.sampled_from(REPLIES), max_size=8), st.lists(st.integers(1, 80), min_size=1))
def test_pieces_do_not_matter(replies: list[tuple[bytes, Any]], sizes: list[int]) -> None:
    """Frames may arrive in any pieces and many at once."""
    raw, decoder, found, at, turn = b"".join(raw for raw, _ in replies), Decoder(), [], 0, 0
    while at < len(raw):
        size = sizes[turn % len(sizes)]
        found += decoder.feed(raw[at : at + size])
        at, turn = at + size, turn + 1
    assert found == [reply for _, reply in replies]


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_arbitrary_bytes_are_records_or_a_protocol_error(pieces: list[bytes]) -> None:
    """A hostile helper can say anything; nothing but ProtocolError comes of it, and little is kept."""
    decoder = Decoder()
    try:
        for piece in pieces:
            for reply in decoder.feed(piece):
                assert isinstance(reply, (Hello, StartFailed, Launched, Started, Exit, Goodbye, Omitted))
    except ProtocolError:
        return
    assert len(decoder._buffer) <= REPLY_MAX + 8


@given(st.integers(0, 26), st.binary(max_size=120))
def test_well_framed_nonsense(kind: int, payload: bytes) -> None:
    """A frame of the right length with any payload parses or is a ProtocolError."""
    try:
        replies = list(Decoder().feed(frame(kind, payload)))
    except ProtocolError:
        return
    assert len(replies) == 1


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(struct.pack("<IHH", REPLY_MAX + 1, 5, 0), id="a length past the limit, before its payload"),
        pytest.param(struct.pack("<IHH", 0xFFFFFFFF, 5, 0), id="four gigabytes"),
        pytest.param(frame(3, struct.pack("<I", 5), descriptors=1), id="a descriptor with another frame than the hello"),
        pytest.param(frame(1, hello(0, b""), descriptors=1), id="a note for the creator"),
        pytest.param(frame(1, struct.pack("<IIIIIIQ", 4, 1, 6, 0, 9, 0, 7)), id="no note for another client"),
        pytest.param(frame(1, hello(0, b""), descriptors=2), id="two descriptors"),
        pytest.param(frame(99, b""), id="an unknown type"),
        pytest.param(frame(16, b""), id="a host's frame"),
        pytest.param(frame(5, b"short"), id="a short report"),
        pytest.param(frame(5, exit_frame()[8:] + b"x"), id="a long report"),
        pytest.param(exit_frame(fault=7), id="an unknown fault"),
        pytest.param(exit_frame(limits=16), id="an unknown limit"),
        pytest.param(exit_frame(stage=7), id="an unknown stage"),
        pytest.param(frame(3, struct.pack("<II", 5, 5)), id="a doorkeeper that is the first process"),
        pytest.param(frame(3, struct.pack("<II", 5, 0)), id="a doorkeeper that is everybody"),
        pytest.param(frame(6, struct.pack("<I", 4)), id="an unknown reason to end"),
        pytest.param(frame(6, struct.pack("<II", 1, 1)), id="two reasons to end"),
        pytest.param(frame(7, bytes(16)), id="half of what was left out"),
        pytest.param(exit_frame(errno=0xFFFFFFFF), id="an errno that is none"),
        pytest.param(frame(2, struct.pack("<I", 1 << 31) + b"x\0y\0"), id="an errno that Python cannot name"),
        pytest.param(frame(3, struct.pack("<I", 0)), id="pid 0, which is everybody"),
        pytest.param(frame(3, struct.pack("<I", 0xFFFFFFFF)), id="pid -1"),
        pytest.param(frame(4, struct.pack("<IIIIQQ", 1, 1 << 31, 0, 0, 0, 0)), id="a pid past 31 bits"),
        pytest.param(frame(1, b"\3\0\0\0"), id="a short hello"),
        pytest.param(frame(1, hello(1, b"")), id="a hello without the layers that it announces"),
        pytest.param(frame(1, hello(0, bytes(8))), id="a hello with a layer that it does not announce"),
        pytest.param(frame(1, hello(1 << 29, b"")), id="a hello with more layers than there are bytes"),
        pytest.param(frame(1, hello(19, struct.pack("<HHI", 1, 0, 0) * 19)), id="more layers than there are"),
        pytest.param(frame(1, hello(2, struct.pack("<HHI", 1, 0, 0) * 2)), id="a layer twice"),
        pytest.param(frame(1, hello(1, struct.pack("<HHI", 0, 0, 0))), id="layer 0"),
        pytest.param(frame(1, hello(1, struct.pack("<HHI", 19, 0, 0))), id="an unknown layer"),
        pytest.param(frame(1, hello(1, struct.pack("<HHI", 1, 3, 0))), id="an unknown verdict"),
    ],
)
def test_what_is_no_reply(raw: bytes) -> None:
    """Lengths, numbers and types are checked before they are believed."""
    with pytest.raises(ProtocolError):
        list(Decoder().feed(raw))


@pytest.mark.parametrize(
    ("timeout", "milliseconds"), [(None, 0), (0.0001, 1), (0.001, 1), (0.0011, 2), (1, 1000), (4_200_000, 4_200_000_000)]
)
def test_a_timeout_is_rounded_up(timeout: float | None, milliseconds: int) -> None:
    """Never to 0, which would be none at all, and it fits 32 bits."""
    raw = encode_start(1, ["a"], {}, "/", flags=StartFlag(0), timeout=timeout, descriptors=3)
    assert struct.unpack_from("<8I", raw, 8)[2] == milliseconds


def test_start_bytes() -> None:
    """The golden frame: header, request, cwd, argv, environment."""
    raw = encode_start(
        5,
        ["sh", "-c", "\udcff"],
        {"A": "1"},
        "/w",
        flags=StartFlag.STDIN | StartFlag.MERGE,
        timeout=2.0,
        descriptors=3,
        operation=6,
    )
    body = b"/w\0sh\0-c\0\xff\0A=1\0"
    assert raw == struct.pack("<IHH8I", 48 + len(body), 16, 3, 5, 3, 2000, 6, 3, 1, 0, 0) + bytes(16) + body


def test_the_end_of_a_start_request() -> None:
    """What a relayed command keeps, the size of its terminal and the most that it may write."""
    flags = StartFlag.KEPT | StartFlag.TERMINAL
    raw = encode_start(
        1, ["a"], {}, "/", flags=flags, timeout=None, descriptors=2, keep=9, rows=24, columns=80, output_quota=1 << 40
    )
    assert struct.unpack_from("<I", raw, 12) == (48,)
    assert raw[40:] == struct.pack("<IHHQ", 9, 24, 80, 1 << 40) + b"/\0a\0"


def test_kill_and_signal_bytes() -> None:
    """Eight bytes of payload each."""
    assert encode_kill(9, "cancelled") == struct.pack("<IHHII", 8, 17, 0, 9, 5)
    assert encode_signal(9, 15) == struct.pack("<IHHII", 8, 18, 0, 9, 15)


@pytest.mark.parametrize(
    ("raw", "kind", "descriptors", "payload"),
    [
        pytest.param(encode_resize(9, 24, 80), 19, 0, struct.pack("<IHH", 9, 24, 80), id="RESIZE"),
        pytest.param(
            encode_attach(9, 3, flags=StartFlag.STDIN | StartFlag.KEPT, since_out=7, since_err=FROM_NOW_ON, descriptors=4),
            20, 4, struct.pack("<IIIIQQ", 9, 3, 1, 0, 7, (1 << 64) - 1), id="ATTACH",
        ),
        pytest.param(encode_ask(Question.RENEW, id=4, value=1 << 40), 21, 1, struct.pack("<IIQ", 3, 4, 1 << 40), id="ASK"),
        pytest.param(encode_shutdown(), 22, 0, b"", id="SHUTDOWN"),
        pytest.param(encode_release(), 23, 0, b"", id="RELEASE"),
        pytest.param(encode_stdin_eof(9), 24, 0, struct.pack("<I", 9), id="STDIN_EOF"),
    ],
)  # fmt: skip
def test_other_requests_bytes(raw: bytes, kind: int, descriptors: int, payload: bytes) -> None:
    """Each request is the frame of protocol.h, and says how many descriptors travel with it."""
    assert raw == struct.pack("<IHH", len(payload), kind, descriptors) + payload
