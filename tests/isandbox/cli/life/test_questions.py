"""What a terminal answers, and what it does not."""

from __future__ import annotations

import pytest

from isandbox.cli.life.questions import Questions

ASKED = [
    b"\x1b[6n", b"\x1b[?6n", b"\x1b[c", b"\x1b[>c", b"\x1b[=0c", b"\x1b[21t", b"\x1b[?25$p", b"\x1b[x", b"\x1b[1;1;1;1;1;1*y",
    b"\x1b[>q", b"\x1b[?u", b"\x1b[?4m", b"\x1b[?1;1;0S", b"\x1b[2$w", b"\x1b['|", b"\x05", b"\x1bZ", b"\x1bP$qm\x1b\\",
    b"\x1bP+q544e\x1b\\", b"\x1b_Gi=31,s=1,v=1,a=q;AAAA\x1b\\", b"\x1b]11;?\x07", b"\x1b]52;c;?\x1b\\", b"\xc2\x9b6n", b"\xc2\x9d10;?\x07",
    b"\x1b[6\x00\rn", b"\x1b[" + b"0" * 2000 + b"6n",
]  # fmt: skip
QUIET = [
    b"text?", b"\x1b[1;31mred\x1b[0m", b"\x1b[?2004h\x1b[?25l\x1b[K\x1b[2J\x1b[H\x1b[10;20H", b"\x1b[2 q", b"\x1b[3S", b"\x1b[u",
    b"\x1b]0;title\x07", "\u76db\u82dbc".encode(), b"\x1b(B\x1b7\x1b8", b"n\x1b", b"\x1b]0;title\x07what?",
]  # fmt: skip


@pytest.mark.parametrize("output", ASKED, ids=repr)
def test_questions_are_seen(output: bytes) -> None:
    """Each kind, with what surrounds it, and also when it comes byte by byte; once."""
    whole, split = Questions(), Questions()
    assert whole.feed(b"text " + output + b" more")
    assert not whole.feed(b"\r\n$ ")
    assert [split.feed(bytes([one])) for one in output].count(True) == 1


@pytest.mark.parametrize("output", QUIET, ids=repr)
def test_what_has_no_answer(output: bytes) -> None:
    """Text, colours, cursors, modes and titles: nobody waits because of them."""
    assert not Questions().feed(output)


@pytest.mark.parametrize(
    "piece", [b"\x1b[", b"\x1b[?", b"?", b"\xc2\x9d", b"\x1b]", b"\x1b ", b"\x1b[??>>$$", b"\xc2\x9b?"], ids=repr
)
def test_no_output_takes_long(piece: bytes) -> None:
    """A megabyte made to be looked at again and again is looked at in time that grows with its length."""
    questions = Questions()
    questions.feed(b"\x1b[")
    for _ in range(16):
        questions.feed(piece * (65_536 // len(piece)))
    assert questions.feed(b"\x18\x1b[6n")  # and a question after it is still seen
