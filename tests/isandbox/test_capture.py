"""Head and tail of an output, and text from chunks of it."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox.capture import HeadTail, TextDecoder

LIMITS = st.integers(0, 40)
PIECES = st.lists(st.binary(max_size=30), max_size=20)


def naive(limit: int, data: bytes) -> tuple[bytes, int]:
    """What HeadTail promises, said with the whole stream in hand."""
    head, tail = (limit + 1) // 2, limit // 2
    if len(data) <= limit:
        return data, 0
    omitted = len(data) - limit
    return data[:head] + b"\n[... %d bytes omitted ...]\n" % omitted + data[len(data) - tail :], omitted


@given(LIMITS, PIECES)
def test_it_keeps_what_the_naive_model_keeps(limit: int, pieces: list[bytes]) -> None:
    """Head, tail and the number of omitted bytes are exact, however the stream is cut into chunks."""
    kept = HeadTail(limit)
    for piece in pieces:
        kept.feed(piece)
    assert (kept.value(), kept.omitted) == naive(limit, b"".join(pieces))
    assert kept.total == sum(map(len, pieces))


@given(LIMITS, PIECES)
def test_a_value_can_be_taken_at_any_time(limit: int, pieces: list[bytes]) -> None:
    """Asking for the value changes nothing: the stream goes on afterwards."""
    kept, data = HeadTail(limit), b""
    for piece in pieces:
        kept.feed(piece)
        data += piece
        assert (kept.value(), kept.omitted) == naive(limit, data)


def test_a_view_of_a_reused_buffer_is_copied() -> None:
    """What was fed as a view stays what it was when the buffer is used again."""
    buffer = bytearray(b"abcd")
    kept = HeadTail(100)
    kept.feed(memoryview(buffer))
    buffer[:] = b"XXXX"
    assert kept.value() == b"abcd"


@pytest.mark.parametrize("chunk", [1, 7, 4096, 65_536])
def test_memory_is_bounded_whatever_the_chunks(chunk: int) -> None:
    """What is held stays below one and a half times the limit plus one chunk (and the allocator's eighth)."""
    limit = 16_384
    kept = HeadTail(limit)
    most = 0
    for _ in range(20 * limit // chunk):
        kept.feed(bytes(chunk))
        most = max(most, sys.getsizeof(kept._head) + sys.getsizeof(kept._tail))
    assert most <= (1.5 * limit + chunk) * 1.125 + 256
    assert kept.omitted == 20 * limit // chunk * chunk - limit


def test_a_limit_beyond_memory_is_no_allocation() -> None:
    """A limit is a bound, not a reservation."""
    kept = HeadTail(1 << 62)
    kept.feed(b"x")
    assert kept.value() == b"x"
    assert sys.getsizeof(kept._head) < 1000


@given(st.text(), st.lists(st.integers(1, 5), min_size=1))
def test_text_is_never_split_inside_a_character(text: str, sizes: list[int]) -> None:
    """The decoded chunks joined are the text, and no chunk holds a replacement for half a character."""
    raw, decoder, out, at, turn = text.encode("utf-8"), TextDecoder(), [], 0, 0
    while at < len(raw):
        size = sizes[turn % len(sizes)]
        out.append(decoder.decode(raw[at : at + size]))
        at, turn = at + size, turn + 1
    out.append(decoder.decode(b"", final=True))
    assert "".join(out) == text


@given(st.binary(max_size=60), st.integers(1, 7))
def test_bytes_that_are_no_text_decode_as_they_would_in_one_piece(raw: bytes, size: int) -> None:
    """Replacement characters do not depend on where the chunks were cut."""
    decoder = TextDecoder()
    parts = [decoder.decode(raw[at : at + size]) for at in range(0, len(raw), size)]
    parts.append(decoder.decode(b"", final=True))
    assert "".join(parts) == raw.decode("utf-8", "replace")


def test_half_a_character_at_the_end_is_replaced() -> None:
    """A stream that ends inside a character ends with a replacement, not with silence."""
    decoder = TextDecoder()
    assert decoder.decode("é".encode()[:1]) == ""
    assert decoder.decode(b"", final=True) == "\ufffd"
