"""Keeping a bounded part of an unbounded output, and decoding chunks of it. Pure: no I/O."""

from __future__ import annotations

import codecs


class HeadTail:
    """The first and last bytes of a stream, at most ``limit`` in all, and how many were left out between them.

    Memory stays below one and a half times ``limit`` plus one chunk, whatever is fed, in chunks of whatever size.
    """

    __slots__ = ("_head", "_head_limit", "_tail", "_tail_limit", "total")

    def __init__(self, limit: int) -> None:
        self._head = bytearray()
        self._head_limit = (limit + 1) // 2
        self._tail = bytearray()
        self._tail_limit = limit - self._head_limit
        self.total = 0

    def feed(self, data: bytes | memoryview) -> None:
        """Only what is kept is copied: ``data`` may be a view of a buffer that is used again."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room:
            self._head += data[:room]
            data = data[room:]
        if not data or not self._tail_limit:
            return
        self._tail += data[max(0, len(data) - self._tail_limit) :]
        excess = len(self._tail) - self._tail_limit
        if excess > self._tail_limit:  # cut rarely: each cut moves what is kept
            del self._tail[:excess]

    @property
    def omitted(self) -> int:
        """Bytes that were fed and are not in `value`."""
        return self.total - len(self._head) - min(len(self._tail), self._tail_limit)

    def value(self) -> bytes:
        """Head and tail; between them, when something is missing, one line that says how much."""
        if not self._tail and not self.omitted:  # no second copy of what may be a large file
            return bytes(self._head)
        tail = self._tail[max(0, len(self._tail) - self._tail_limit) :]
        if not self.omitted:
            return bytes(self._head + tail)
        return bytes(self._head + b"\n[... %d bytes omitted ...]\n" % self.omitted + tail)


class TextDecoder:
    """UTF-8 with replacement, one chunk at a time, never splitting a character between chunks."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, chunk: bytes, *, final: bool = False) -> str:
        return self._decoder.decode(chunk, final)
