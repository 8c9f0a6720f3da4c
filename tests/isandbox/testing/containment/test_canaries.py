"""Canaries are found however they are written, and nothing else is."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Callable
from urllib.parse import quote

import pytest

from isandbox.testing.containment.canaries import Canaries

Spelling = Callable[[str], bytes]


def dump(text: str) -> bytes:
    """As xxd writes it: an offset, 16 bytes in hex, 16 characters."""
    raw = b"\0\1\2" + text.encode() + b"\n"
    lines = []
    for at in range(0, len(raw), 16):
        piece = raw[at : at + 16]
        words = " ".join(piece[i : i + 2].hex() for i in range(0, len(piece), 2))
        lines.append(f"{at:08x}: {words:<40} {''.join(chr(b) if 32 <= b < 127 else '.' for b in piece)}")
    return "\n".join(lines).encode()


def words(text: str) -> bytes:
    """As ``od -x`` writes it: words of 16 bits in the machine's order."""
    raw = text.encode() + b"\0"
    return " ".join(f"{raw[i + 1]:02x}{raw[i]:02x}" for i in range(0, len(raw) - 1, 2)).encode()


SPELLINGS: dict[str, Spelling] = {
    "plain": str.encode,
    "in capitals": lambda text: text.upper().encode(),
    "reversed": lambda text: text[::-1].encode(),
    "a line each": lambda text: "\n".join(text).encode(),
    "in groups": lambda text: " ".join(text[i : i + 4] for i in range(0, len(text), 4)).encode(),
    "concatenated strings": lambda text: f'"{text[:10]}" + "{text[10:]}"'.encode(),
    "in JSON, letter by letter": lambda text: str(list(text)).encode(),
    "between NULs": lambda text: "\0".join(text).encode(),
    "half of it": lambda text: text[-16:].encode(),
    "its middle": lambda text: text[15:30].encode(),
    "hex": lambda text: text.encode().hex().encode(),
    "hex in capitals, with colons": lambda text: text.encode().hex(":").upper().encode(),
    "hex reversed": lambda text: text.encode()[::-1].hex().encode(),
    "a hex dump": dump,
    "od -x": words,
    "od -x, shifted": lambda text: words("x" + text),
    "escapes": lambda text: "".join(f"\\x{ord(c):02x}" for c in text).encode(),
    "escapes of JSON": lambda text: "".join(f"\\u{ord(c):04x}" for c in text).encode(),
    "entities": lambda text: "".join(f"&#x{ord(c):x};" for c in text).encode(),
    "a list in C": lambda text: ", ".join(f"0x{ord(c):02X}" for c in text).encode(),
    "percent": lambda text: "".join(f"%{ord(c):02X}" for c in text).encode(),
    "quoted": lambda text: quote(text).encode(),
    "decimal": lambda text: str(list(text.encode())).encode(),
    "octal": lambda text: "".join(f"\\{ord(c):o}" for c in text).encode(),
    "od -b": lambda text: " ".join(f"{ord(c):03o}" for c in text).encode(),
    "bits": lambda text: " ".join(f"{ord(c):08b}" for c in text).encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, big end first": lambda text: text.encode("utf-16-be"),
    "UTF-32": lambda text: text.encode("utf-32"),
    **{f"base64 after {n} bytes": lambda text, n=n: base64.encodebytes(b"x" * n + text.encode() + b"tail") for n in range(3)},
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(b"??>" + text.encode()),
    **{f"base32 after {n} bytes": lambda text, n=n: base64.b32encode(b"x" * n + text.encode()) for n in range(5)},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_found(spelling: str) -> None:
    """A canary is found in the midst of other output, in each way in which shells and languages would write it."""
    for _ in range(20):
        canaries = Canaries()
        other, canary = canaries.new(), canaries.new()
        found = canaries.seen_in(b"total 12\n\xff\xfe" + SPELLINGS[spelling](canary) + b"\nexit 0\n")
        assert found is not None
        assert found.startswith(canary)
        assert other not in found


def test_nothing_else_is_found() -> None:
    """Hashes, random bytes in every spelling, short pieces and the canaries of others are no canary."""
    chance = random.Random(4)  # noqa: S311 - the same noise every time
    canaries = Canaries()
    canary = canaries.new()
    stranger = "canary" + chance.randbytes(16).hex()
    noise = [
        hashlib.sha256(canary.encode()).hexdigest().encode(),
        chance.randbytes(1 << 16),
        b"",
        b"canary",
        canary[:17].encode(),
    ]
    noise += [spelling(stranger) for spelling in SPELLINGS.values()]
    noise += [chance.randbytes(1 << 15).hex().encode(), base64.b64encode(chance.randbytes(1 << 15))]
    assert [data[:40] for data in noise if canaries.seen_in(data) is not None] == []
    assert Canaries().seen_in(canary.encode()) is None


def test_canaries_differ() -> None:
    """Each is new, and long enough not to be guessed."""
    canaries = Canaries()
    made = {canaries.new() for _ in range(100)}
    assert len(made) == 100
    assert {len(canary) for canary in made} == {len("canary") + 32}
