r"""Text that code inside chose, on its way to a terminal: what a terminal would act on becomes visible.

Two forms. `visible` is for what isandbox itself prints of a name, label, path or message, where nothing but characters makes
sense. `Sanitiser` is for the output of a command, where colours and the carriage return of a progress bar do.

Both write ``\x1b`` for the character ESC, as the messages of isandbox do: what was there can be read, and not one byte of it
is acted upon. Nothing is left out, so that no text can hide in what is dropped.
"""

from __future__ import annotations

import codecs
import re

# 16 numbers of 4 digits hold two true colours and every attribute; what is longer has broken parsers of terminals.
_NUMBERS = r"(?:[0-9]{0,4}[;:]){0,16}[0-9]{0,4}"
# SGR; and what moves, inserts or erases in one line: CUF, CUB, CHA, HPA, EL, DCH, ECH, ICH. With a private marker or another
# intermediate byte they are something else (CSI > 4 m tells xterm to type differently, CSI ? 4 m makes it answer).
_KEPT = rf"\x1b\[(?:{_NUMBERS}m|[0-9]{{0,4}}[CDGKPX@`])"
# C0 but for BS, TAB, LF and CR; DEL and C1; the controls that reorder text and the two that end a line or paragraph; bytes
# that are no UTF-8, which Python's decoder carries as lone surrogates: a terminal with 8-bit controls would take 0x9b for CSI.
_UNSAFE = r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff]"
_SUSPECT = re.compile(_UNSAFE)
_TOKEN = re.compile(rf"({_KEPT})|{_UNSAFE}")
_UNFINISHED = re.compile(rf"\x1b(?:\[{_NUMBERS})?\Z")
_LONGEST = 128
# With a colon terminals that know no such part of a reset skip it.
_PLAIN_SGR = re.compile(r"\x1b\[[0;]*m\Z")
_RESET = b"\x1b[0m"


def visible(text: str) -> str:
    """The text in one line. What is not printable (controls, line ends, marks that reorder, odd spaces, bytes that are no UTF-8)
    is written as an escape; a backslash stays one.
    """
    return text if text.isprintable() else "".join(one if one.isprintable() else _escape(one) for one in text)


class Sanitiser:
    """Makes the bytes of a command's output safe to be shown, chunk by chunk.

    Text, BS, TAB, LF, CR, colours (SGR) and movement within a line pass as they are. Every other control becomes visible: other
    escape sequences (titles, the clipboard, links, requests that a terminal answers as if somebody had typed, resets, character
    sets), the bell, C1 controls in both encodings, controls that reorder text, and bytes that are no UTF-8. However a stream is
    split into chunks, the result is the same. A sequence or character that is not complete is held back (at most 128
    characters) until it is, or until `end`.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""
        self._styled = False

    def feed(self, data: bytes) -> bytes:
        """What can be shown so far."""
        return self._take(self._held + self._decoder.decode(data), final=False).encode()

    def end(self) -> bytes:
        """What was held back, made visible; and the end of a colour or attribute that is still on, so that what isandbox or the
        shell prints next is neither coloured nor concealed. The next stream may begin.
        """
        rest = self._take(self._held + self._decoder.decode(b"", final=True), final=True).encode()
        self._decoder.reset()
        styled, self._styled = self._styled, False
        return rest + _RESET if styled else rest

    def _take(self, text: str, *, final: bool) -> str:
        self._held = ""
        if not final and (start := text.rfind("\x1b", -_LONGEST)) >= 0 and _UNFINISHED.match(text, start):
            text, self._held = text[:start], text[start:]
        return _TOKEN.sub(self._one, text) if _SUSPECT.search(text) else text

    def _one(self, match: re.Match[str]) -> str:
        kept: str | None = match[1]
        if kept is None:
            return _escape(match[0])
        if kept.endswith("m"):
            self._styled = _PLAIN_SGR.match(kept) is None
        return kept


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
