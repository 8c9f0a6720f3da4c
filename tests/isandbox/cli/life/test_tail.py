"""The last lines of a stream."""

import pytest

from isandbox.cli.life.tail import LastLines, last_lines


@pytest.mark.parametrize(
    ("data", "lines", "last"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\nc\n", 3, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 9, b"a\nb\nc\n"),
        (b"a\nb\n", 0, b""),
        (b"\n\n\n", 1, b"\n"),
        (b"", 5, b""),
    ],
)
def test_last_lines(data, lines, last):
    """So many lines from the end, one that has no end yet among them."""
    assert last_lines(data, lines) == last


def test_what_was_there_is_cut_and_the_rest_is_whole():
    """In whatever pieces it comes, only what was written when we looked is cut."""
    old, new = b"1\n2\n3\n", b"4\n5\n"
    for size in range(1, 11):
        stream = LastLines(1, 100, 100 + len(old))
        pieces = [(old + new)[at : at + size] for at in range(0, len(old + new), size)]
        assert b"".join(map(stream.feed, pieces)) + stream.end() == b"3\n" + new
    stream = LastLines(1, 7, 6)
    assert stream.feed(new) == new


def test_a_stream_that_ends_early():
    """Its last lines come out at its end."""
    stream = LastLines(1, 0, 100)
    assert stream.feed(b"1\n2\n") == b""
    assert stream.end() == b"2\n"
