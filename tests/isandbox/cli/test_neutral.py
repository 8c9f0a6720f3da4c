"""What code inside chose does not act on a terminal; the table of what passes, and what becomes of the rest."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox.cli._neutral import Sanitiser, visible

SHOWN = [
    ("title", b"\x1b]0;title\x07", rb"\x1b]0;title\x07"),
    ("clipboard", b"\x1b]52;c;cm0gLXJm\x1b\\", rb"\x1b]52;c;cm0gLXJm\x1b" + b"\\"),
    ("link", b"\x1b]8;;http://x\x1b\\a\x1b]8;;\x1b\\", rb"\x1b]8;;http://x\x1b\a\x1b]8;;\x1b" + b"\\"),
    ("device control", b"\x1bP+q544e\x1b", rb"\x1bP+q544e\x1b"),
    ("application command", b"\x1b_x", rb"\x1b_x"),
    ("privacy message", b"\x1b^x", rb"\x1b^x"),
    ("start of string", b"\x1bXx", rb"\x1bXx"),
    ("reset of the terminal", b"\x1bc", rb"\x1bc"),
    ("cursor position report", b"\x1b[6n", rb"\x1b[6n"),
    ("device attributes", b"\x1b[c", rb"\x1b[c"),
    ("window report", b"\x1b[21t", rb"\x1b[21t"),
    ("mode report", b"\x1b[?25$p", rb"\x1b[?25$p"),
    ("mouse reports", b"\x1b[?1000h", rb"\x1b[?1000h"),
    ("the other screen", b"\x1b[?1049h", rb"\x1b[?1049h"),
    ("keys that xterm types", b"\x1b[>4;2m", rb"\x1b[>4;2m"),
    ("keys that xterm tells", b"\x1b[?4m", rb"\x1b[?4m"),
    ("clearing the screen", b"\x1b[2J", rb"\x1b[2J"),
    ("cursor to another line", b"\x1b[1A\x1b[H", rb"\x1b[1A\x1b[H"),
    ("repeat a billion times", b"x\x1b[999999999b", rb"x\x1b[999999999b"),
    ("numbers without an end", b"\x1b[" + b"1" * 99 + b"m", rb"\x1b[" + b"1" * 99 + b"m"),
    ("a sequence in a sequence", b"\x1b[3\x1b]0;x", rb"\x1b[3\x1b]0;x"),
    ("answer-back", b"\x05", rb"\x05"),
    ("bell", b"\x07", rb"\x07"),
    ("character set", b"\x0e\x1b(0", rb"\x0e\x1b(0"),
    ("line feeds by another name", b"\x0b\x0c", rb"\x0b\x0c"),
    ("delete", b"\x7f", rb"\x7f"),
    ("C1 in UTF-8", b"\xc2\x9b6n\xc2\x9d0;x\xc2\x9c", rb"\x9b6n\x9d0;x\x9c"),
    ("C1 in 8 bits", b"\x9b6n", rb"\x9b6n"),
    ("overlong escape", b"\xc0\x9b[6n", rb"\xc0\x9b[6n"),
    ("C1 after half a character", b"\xe2\x82\x9b\xe2\x9b6n", "\u209b".encode() + rb"\xe2\x9b6n"),
    ("not UTF-8", b"caf\xe9", rb"caf\xe9"),
    ("reordering", "a\u202eb\u2066c".encode(), rb"a\u202eb\u2066c"),
    ("line ends of Unicode", "a\u2028b".encode(), rb"a\u2028b"),
]
PASSED = [
    ("colours", b"\x1b[1;38;5;196mred\x1b[0m"),
    ("true colours", b"\x1b[38;2;255;128;0;48:2::1:2:3mx\x1b[m"),
    ("a progress bar", b"10%\r\x1b[K20%\b\b\b\x1b[2Cx\x1b[5G\x1b[1P\x1b[3@\x1b[4X\n"),
    ("text", "a\tb\r\n\u65e5\u672c e\u0301 \U0001f642 \u05d0\u200f \u200d".encode()),
]


@pytest.mark.parametrize(("name", "output", "shown"), SHOWN, ids=[row[0] for row in SHOWN])
def test_what_would_act_is_shown(name: str, output: bytes, shown: bytes) -> None:
    """What could change the terminal, make it answer, or deceive its reader stands there as characters, with nothing left out."""
    sanitiser = Sanitiser()
    assert sanitiser.feed(output) + sanitiser.end() == shown


@pytest.mark.parametrize(("name", "output"), PASSED, ids=[row[0] for row in PASSED])
def test_what_passes(name: str, output: bytes) -> None:
    """Text, colours and movement within a line are as the command wrote them."""
    sanitiser = Sanitiser()
    assert (sanitiser.feed(output), sanitiser.end()) == (output, b"")


def test_text_is_shown_as_it_comes() -> None:
    """Only what is not complete waits: not the text before it, and not longer than until the end."""
    sanitiser = Sanitiser()
    assert sanitiser.feed(b"prompt> \x1b[3") == b"prompt> "
    assert sanitiser.feed(b"1mred \xe6\x97") == b"\x1b[31mred "
    assert sanitiser.feed(b"\xa5\x1b") == b"\xe6\x97\xa5"
    assert sanitiser.end() == rb"\x1b" + b"\x1b[0m"
    assert sanitiser.feed(b"\xe6") + sanitiser.end() == rb"\xe6"


@pytest.mark.parametrize(
    ("output", "after"),
    [
        (b"\x1b[8m", b"\x1b[0m"),
        (b"\x1b[8m\x1b[0:0m", b"\x1b[0m"),
        (b"\x1b[31m\x1b[m", b""),
        (b"\x1b[31m\x1b[0;1m", b"\x1b[0m"),
        (b"\x1b[0;0m", b""),
    ],
)
def test_no_colour_outlives_its_command(output: bytes, after: bytes) -> None:
    """An attribute that is still on at the end is switched off, so that no later line is concealed; else nothing is added."""
    sanitiser = Sanitiser()
    assert (sanitiser.feed(output), sanitiser.end()) == (output, after)
    assert sanitiser.end() == b""


def test_what_is_held_back_is_bounded() -> None:
    """A sequence that never ends holds back no more than the longest that could pass."""
    sanitiser = Sanitiser()
    assert sanitiser.feed(b"\x1b[" + b"1;" * 5000).startswith(rb"\x1b[1;1;")
    sanitiser = Sanitiser()
    shown = b"".join(sanitiser.feed(bytes([one])) for one in b"\x1b[" + b"1;" * 5000)
    assert len(shown) > 10_000 - 128


PIECES = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([row[1] for row in SHOWN + PASSED]),
    st.sampled_from([b"\x1b", b"\x1b[", b"[", b"m", b"0;", b"\xc2", b"\x9b", b"\x90", b"\xe2\x80", b"\xae", b"n", b"\x1b[1m"]),
)
SAFE = re.compile(
    r"(?:\x1b\[(?:[0-9;:]*m|[0-9]*[CDGKPX@`])|[\x08-\x0a\x0d\x20-\x7e\u00a0-\u2027\u202f-\u2065\u2070-\ud7ff\ue000-\U0010ffff])*"
)


@given(st.lists(PIECES, max_size=12), st.lists(st.integers(0, 200), max_size=8))
def test_any_output_in_any_chunks(pieces: list[bytes], cuts: list[int]) -> None:
    """Whatever is written, only what is safe comes out; however it is split, it comes out the same."""
    output = b"".join(pieces)
    whole = Sanitiser()
    expected = whole.feed(output) + whole.end()
    split, shown, before = Sanitiser(), b"", 0
    for at in [*sorted(min(cut, len(output)) for cut in cuts), len(output)]:
        shown += split.feed(output[before:at])
        before = at
    assert shown + split.end() == expected
    assert SAFE.fullmatch(expected.decode())


@given(st.text())
def test_any_text_is_one_printable_line(text: str) -> None:
    """A name of whatever characters becomes one line that no terminal acts upon, and a printable one stays as it is."""
    assert visible(text).isprintable()
    assert not text.isprintable() or visible(text) == text


def test_names_as_messages_show_them() -> None:
    """Controls, reordering, odd spaces and bytes that are no UTF-8 are escapes; letters of any script stay."""
    assert visible("a\x1b]0;\x07\n\u202e\u200b\xa0\udcff\u65e5") == r"a\x1b]0;\x07\n\u202e\u200b\xa0\xff" + "\u65e5"
