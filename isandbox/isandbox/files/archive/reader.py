"""Accepting an archive as a whole: all of it is read, checked and put aside before anybody can use a part of it."""

from __future__ import annotations

import os
import tempfile
from typing import IO, TYPE_CHECKING, BinaryIO

from isandbox.errors import ConfigurationError
from isandbox.files.archive.inflate import HARMLESS, Inflater
from isandbox.files.archive.tar import TarParser
from isandbox.files.host import PIECE, Content, Entry, Plan
from isandbox.files.names import refuse
from isandbox.policy import check_path

if TYPE_CHECKING:
    from isandbox.files.limits import Limits


class ArchiveReader:
    """Tar, plain or gzip, from any bytes: `feed` it all, then `accepted`. Raises `TransferRefusedError` as soon as it can.

    Contents go to an unnamed temporary file, at most ``limits.bytes`` of them; memory holds names. Close it.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._plan = limits, Plan(limits, "refuse")
        self._spool: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - `close` does
        self._inflater = Inflater(limits)
        self._parser = TarParser(self._plan, self._spool.write)

    def feed(self, data: bytes) -> None:
        for piece in self._inflater.feed(data):
            self._parser.feed(piece)

    def accepted(self) -> Archive:
        """After the last byte. The archive lives as long as this reader is open."""
        self._parser.feed(self._inflater.finish())
        self._parser.finish()
        # Hard links become files: a bomb that no compression is needed for.
        if self._plan.bytes > max(HARMLESS, self._limits.ratio * self._inflater.taken):
            refuse("ratio", "", f"more than {self._limits.ratio} bytes out of each of the archive's, by hard links")
        self._spool.flush()
        return Archive(self._plan, self._spool.fileno())

    def close(self) -> None:
        self._spool.close()


class Archive:
    """An accepted archive: a tree like one of the host, sorted by path."""

    def __init__(self, plan: Plan, spool: int) -> None:
        self.plan, self._spool = plan, spool

    def open(self, entry: Entry) -> Content:
        return Content(os.dup(self._spool), entry.offset, entry.size)


class ArchiveSource:
    """An archive of the host, by path or as a binary stream, and its reader. A stream of the caller's is not closed."""

    def __init__(self, archive: str | os.PathLike[str] | BinaryIO, limits: Limits) -> None:
        self._reader = ArchiveReader(limits)
        self._stream: BinaryIO | None = None
        self._fd = -1
        try:
            if isinstance(archive, (str, os.PathLike)):
                self._fd = os.open(check_path(archive, "archive"), os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
            elif hasattr(archive, "read"):
                self._stream = archive
            else:
                raise ConfigurationError(f"archive: a path or a binary stream, not {type(archive).__name__}")
        except BaseException:
            self._reader.close()
            raise

    def take(self) -> bool:
        """Read and check one piece; false at the end."""
        data = os.read(self._fd, PIECE) if self._stream is None else self._stream.read(PIECE)
        if not isinstance(data, bytes):
            raise ConfigurationError(f"archive: its read() gave {type(data).__name__}, not bytes")
        self._reader.feed(data)
        return bool(data)

    def accepted(self) -> Archive:
        return self._reader.accepted()

    def close(self) -> None:
        self._reader.close()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
