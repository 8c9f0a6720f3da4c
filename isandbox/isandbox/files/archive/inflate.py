"""A byte stream as it comes, or what a gzip stream unpacks to, without any I/O and never much at once."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from isandbox.files.limits import Limits
from isandbox.files.names import refuse

_MAGIC = b"\x1f\x8b"
_PIECE = 1 << 20
# Below this much output nothing is a bomb.
HARMLESS = 16 << 20
# Input that unpacks to nothing: empty streams, long comments, zeros behind the end. Without a bound it could go on for ever.
_IDLE_MAX = 1 << 20


class Inflater:
    """Finds out by the first two bytes. Raises `TransferRefusedError` for a broken stream and for too much out of too little."""

    def __init__(self, limits: Limits) -> None:
        self._ratio = limits.ratio
        self._head = b""
        self._plain: bool | None = None
        self._stream: zlib._Decompress | None = None
        self.taken = self._out = 0
        self._ended = False
        """Between two gzip members, or after the last."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        self.taken += len(data)
        if self._plain is None:
            data = self._head + data
            if len(data) < len(_MAGIC):
                self._head = data
                return
            self._plain, self._head = not data.startswith(_MAGIC), b""
        if self._plain:
            yield data
            return
        more = False
        while data or more:
            if self._stream is None:
                data = self._begin(data)
                continue
            piece = self._inflate(self._stream, data)
            data = self._stream.unconsumed_tail or self._stream.unused_data
            more = len(piece) == _PIECE and not self._stream.eof  # zlib may hold some back when it has read everything
            if self._stream.eof:
                self._stream, self._ended, self._head = None, True, b""
            if piece:
                yield piece
        if self.taken > 2 * self._out + _IDLE_MAX:
            refuse("malformed", "", "a gzip stream that is mostly empty")

    def _begin(self, data: bytes) -> bytes:
        """A member of the gzip stream begins, or zeros fill the rest of a block."""
        if self._ended and not any(data) and not self._head:
            return b""
        data, self._head = self._head + data, b""
        if len(data) < len(_MAGIC) and _MAGIC.startswith(data):
            self._head = data
            return b""
        if not data.startswith(_MAGIC):
            refuse("malformed", "", "something follows the gzip stream's end")
        self._stream, self._ended = zlib.decompressobj(wbits=31), False
        return data

    def _inflate(self, stream: zlib._Decompress, data: bytes) -> bytes:
        try:
            piece = stream.decompress(data, _PIECE)
        except zlib.error as error:
            refuse("malformed", "", f"a gzip stream that does not unpack ({error})")
        self._out += len(piece)
        if self._out > HARMLESS and self._out > self._ratio * self.taken:
            refuse("ratio", "", f"more than {self._ratio} bytes out of each compressed one")
        return piece

    def finish(self) -> bytes:
        """No more comes: what was held back. Raises when a gzip stream has no end."""
        if self._plain is None:
            return self._head
        if not self._plain and (not self._ended or self._head):
            refuse("truncated", "", "the gzip stream has no end")
        return b""
