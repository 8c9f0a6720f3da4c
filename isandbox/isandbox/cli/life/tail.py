"""The last lines of what a command has written, and all that it writes from then on. Pure."""

from __future__ import annotations


class LastLines:
    """Takes one stream from ``start`` on. Of the bytes before ``until`` the last ``lines`` come out, what follows as it is.

    What is held back is at most what a sandbox keeps of a stream.
    """

    def __init__(self, lines: int, start: int, until: int) -> None:
        self._lines, self._left = lines, max(0, until - start)
        self._held = bytearray()

    def feed(self, data: bytes) -> bytes:
        """What comes out now; nothing before the bytes up to ``until`` are all there."""
        if self._left == 0:
            return data
        before, after = data[: self._left], data[self._left :]
        self._held += before
        self._left -= len(before)
        return b"" if self._left else self.end() + after

    def end(self) -> bytes:
        """What is held back still, where the stream ended short of ``until``."""
        held, self._held, self._left = bytes(self._held), bytearray(), 0
        return last_lines(held, self._lines)


def last_lines(data: bytes, lines: int) -> bytes:
    """A last line that has no end yet is one, too."""
    if lines == 0:
        return b""
    end = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        end = data.rfind(b"\n", 0, end)
        if end < 0:
            return data
    return data[end + 1 :]
