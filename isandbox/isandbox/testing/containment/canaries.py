"""Secrets that are planted on the host, and the search for them in everything that comes back, in any spelling (rule R2)."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator

_HEX_DIGITS = 32
# A part of a canary gives it away: 48 bits are no chance. Any 15 of its digits in a row hold one of these pieces, and so does a
# line of a hex dump.
_PIECE, _STEP = 12, 4
# What stands before a byte in listings, as \x63, 0x63, %63, &#x63; and \u0063.
_ESCAPES = (b"\\u00", b"&#x", b"\\x", b"0x", b"%")


class Canaries:
    """Makes random texts of 128 bits and remembers them."""

    def __init__(self) -> None:
        self._made: dict[str, list[tuple[str, bytes]]] = {}

    def new(self) -> str:
        digits = secrets.token_hex(_HEX_DIGITS // 2)
        text = "canary" + digits
        self._made[text] = [*_pieces(digits), *_windows(digits)]
        return text

    def seen_in(self, data: bytes) -> str | None:
        """The first canary of which a part is in ``data``, with its spelling; ``None`` when there is none.

        Letter case counts for nothing, nor do blanks, line breaks and punctuation between the characters of a spelling.
        """
        if not self._made or len(data) < _PIECE:
            return None
        low = data.lower()
        unescaped = low
        for prefix in _ESCAPES:
            unescaped = unescaped.replace(prefix, b"")
        squeezed = {low.translate(None, _NOT_ALPHANUMERIC), unescaped.translate(None, _NOT_ALPHANUMERIC)}
        for canary, forms in self._made.items():
            for name, form in forms:
                if any(form in text for text in squeezed):
                    return f"{canary} ({name})"
        return None


def _pieces(digits: str) -> Iterator[tuple[str, bytes]]:
    """Parts of a canary as they would look when they are smuggled out: in small letters, without what is neither letter nor
    digit. Plain is UTF-16 and UTF-32 too, whose NULs are dropped, and hex is URL encoding.
    """
    for at in range(0, len(digits) - _PIECE + 1, _STEP):
        raw = digits[at : at + _PIECE].encode()
        yield "plain", raw
        yield "reversed", raw[::-1]
        yield "hex", raw.hex().encode()
        yield "hex, reversed", raw[::-1].hex().encode()
        yield "hex in words of 16 bits", b"".join(b"%02x%02x" % (raw[i + 1], raw[i]) for i in range(0, len(raw), 2))
        yield "hex in words of 16 bits", b"".join(b"%02x%02x" % (raw[i + 1], raw[i]) for i in range(1, len(raw) - 1, 2))
        yield "decimal", "".join(map(str, raw)).encode()
        yield "octal", "".join(f"{byte:o}" for byte in raw).encode()
        yield "octal, three digits", "".join(f"{byte:03o}" for byte in raw).encode()
        yield "bits", "".join(f"{byte:08b}" for byte in raw).encode()


def _windows(digits: str) -> Iterator[tuple[str, bytes]]:
    """The same of encodings that take bytes in groups, wherever the first group begins."""
    raw = digits.encode()
    for name, encode, group, letters in (("base64", base64.b64encode, 3, 4), ("base32", base64.b32encode, 5, 8)):
        for shift in range(group):
            whole = raw[shift : shift + (len(raw) - shift) // group * group]
            encoded = _squeeze(encode(whole))
            for at in range(0, len(encoded) - 15, letters):
                yield f"{name}, shifted by {shift}", encoded[at : at + 16]


_NOT_ALPHANUMERIC = bytes(byte for byte in range(256) if not chr(byte).isascii() or not chr(byte).isalnum())


def _squeeze(text: bytes) -> bytes:
    return text.lower().translate(None, _NOT_ALPHANUMERIC)
