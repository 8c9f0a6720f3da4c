"""Secrets that are planted on the host, and the search for them in everything that comes back, in any spelling (rule R2)."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from urllib.parse import quote


class Canaries:
    """Makes random texts of 128 bits and remembers them."""

    def __init__(self) -> None:
        self._made: list[str] = []

    def new(self) -> str:
        text = "canary" + secrets.token_hex(16)
        self._made.append(text)
        return text

    def seen_in(self, data: bytes) -> str | None:
        """The first canary in ``data``, with its spelling; ``None`` when there is none. Parts of it that a line break, a quote or
        a space separates are found too.
        """
        squeezed = bytes(byte for byte in data.lower() if byte not in b" \t\r\n\0\"'\\+,")
        for canary in self._made:
            for name, form in spellings(canary):
                if form in data or form.lower() in squeezed:
                    return f"{canary} ({name})"
        return None


def spellings(text: str) -> Iterator[tuple[str, bytes]]:
    """``text`` as it would look when it is smuggled out."""
    raw = text.encode()
    yield "plain", raw
    yield "reversed", raw[::-1]
    yield "hex", raw.hex().encode()
    yield "UTF-16", text.encode("utf-16-le")
    yield "percent", "".join(f"%{byte:02x}" for byte in raw).encode()
    yield "quoted", quote(text).encode()
    for shift in range(3):
        # Of an encoding that begins somewhere before it, the whole groups of three bytes are what does not depend on that.
        whole = raw[shift : shift + (len(raw) - shift) // 3 * 3]
        yield f"base64, shifted by {shift}", base64.b64encode(whole)
