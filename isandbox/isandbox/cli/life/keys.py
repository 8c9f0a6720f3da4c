"""The keys that leave a command running: a sequence that is looked for in what is typed. Pure."""

from __future__ import annotations

from isandbox.errors import ConfigurationError

DETACH_DEFAULT = "ctrl-p,ctrl-q"


def parse_keys(text: str) -> bytes:
    """Docker's form: characters, or ``ctrl-`` and a letter or one of ``@[]^_``, with commas between. Empty: no keys.

    Raises `ConfigurationError`.
    """
    return bytes(_key(part) for part in text.split(",")) if text else b""


def _key(part: str) -> int:
    name = part.lower()
    if name.startswith("ctrl-") and len(name) == 6 and (("a" <= name[5] <= "z") or name[5] in "@[]^_"):
        return ord(name[5].upper()) & 0x1F
    if len(part) == 1 and part.isascii() and part.isprintable():
        return ord(part)
    raise ConfigurationError(f"detach keys: {part!r} is neither one character nor of the form ctrl-a; e.g. {DETACH_DEFAULT}")


class DetachKeys:
    """Looks for one sequence in a stream of typed bytes. Without a sequence everything passes."""

    def __init__(self, sequence: bytes) -> None:
        self._sequence = sequence
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What is for the command, and whether the sequence was typed. What may be its beginning waits for the next key; what
        follows it is dropped.
        """
        if not self._sequence:
            return data, False
        typed = self._held + data
        at = typed.find(self._sequence)
        if at >= 0:
            self._held = b""
            return typed[:at], True
        held = self._beginning(typed)
        self._held = typed[len(typed) - held :]
        return typed[: len(typed) - held], False

    def _beginning(self, typed: bytes) -> int:
        """How many bytes at the end could be the sequence's first ones."""
        longest = min(len(typed), len(self._sequence) - 1)
        return next((size for size in range(longest, 0, -1) if typed.endswith(self._sequence[:size])), 0)
