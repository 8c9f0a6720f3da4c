"""Secrets that are planted on the host, and the search for them in everything that comes back, in any spelling (rule R2)."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator

_HEX_DIGITS = 32
# Half of a canary gives it away: 64 bits are no chance. These pieces overlap, so that any 24 of its digits hold one of them.
_PIECE, _STEP = 16, 8
# Prefixes of one byte in listings, as \x63, 0x63, %63, &#x63; and \u0063: longer ones first.
_ESCAPES = (b"\\u00", b"&#x", b"\\x", b"0x", b"%")


class Canaries:
    """Makes random texts of 128 bits and remembers them."""

    def __init__(self) -> None:
        self._made: dict[str, list[tuple[str, bytes]]] = {}

    def new(self) -> str:
        digits = secrets.token_hex(_HEX_DIGITS // 2)
        text = "canary" + digits
        pieces = [digits[at : at + _PIECE] for at in range(0, _HEX_DIGITS - _PIECE + 1, _STEP)]
        self._made[text] = [spelling for piece in pieces for spelling in spellings(piece)]
        return text

    def seen_in(self, data: bytes) -> str | None:
        """The first canary of which half or more is in ``data``, with its spelling; ``None`` when there is none.

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


def spellings(text: str) -> Iterator[tuple[str, bytes]]:
    """``text`` as it would look when it is smuggled out: in small letters, without what is neither letter nor digit.

    Plain is UTF-16 and UTF-32 too, whose NULs are dropped, and hex is URL encoding.
    """
    raw = text.encode()
    yield "plain", raw
    yield "reversed", raw[::-1]
    yield "hex", raw.hex().encode()
    yield "hex, reversed", raw[::-1].hex().encode()
    yield "hex in words of 16 bits", b"".join(b"%02x%02x" % (raw[i + 1], raw[i]) for i in range(0, len(raw) - 1, 2))
    yield "decimal", "".join(map(str, raw)).encode()
    yield "octal", "".join(f"{byte:o}" for byte in raw).encode()
    yield "octal, three digits", "".join(f"{byte:03o}" for byte in raw).encode()
    yield "bits", "".join(f"{byte:08b}" for byte in raw).encode()
    # Of an encoding that begins somewhere before it, the whole groups of bytes are what does not depend on that.
    for shift in range(3):
        whole = raw[shift : shift + (len(raw) - shift) // 3 * 3]
        yield f"base64, shifted by {shift}", _squeeze(base64.b64encode(whole))
    for shift in range(5):
        whole = raw[shift : shift + (len(raw) - shift) // 5 * 5]
        yield f"base32, shifted by {shift}", _squeeze(base64.b32encode(whole))


_NOT_ALPHANUMERIC = bytes(byte for byte in range(256) if not chr(byte).isascii() or not chr(byte).isalnum())


def _squeeze(text: bytes) -> bytes:
    return text.lower().translate(None, _NOT_ALPHANUMERIC)
