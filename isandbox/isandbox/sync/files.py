# Made by scripts/unasync.py from isandbox/files.py: change that one.
"""Comfort over the port's file verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isandbox.command import check_input
from isandbox.errors import ConfigurationError

if TYPE_CHECKING:
    from isandbox.records import FileInfo
    from isandbox.sync.sandbox import ISandbox


class Files:
    """``sandbox.files``: the verbs of `ISandbox` under the names that people expect, and texts beside bytes."""

    def __init__(self, sandbox: ISandbox) -> None:
        self._sandbox = sandbox

    def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes from ``offset``, at most ``limit``."""
        return self._sandbox.read(path, offset=offset, limit=limit)

    def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The whole file as a text. Raises `UnicodeDecodeError` for bytes that are none, unless ``errors`` says otherwise."""
        return (self._sandbox.read(path)).decode(encoding, errors)

    def write(self, path: str, data: str | bytes, *, mode: int | None = None, append: bool = False) -> None:
        """Create or overwrite; a text is written as UTF-8."""
        raw = check_input(data)
        if raw is None:
            raise ConfigurationError("write: data is a text or bytes, not None")
        self._sandbox.write(path, raw, mode=mode, append=append)

    def list(self, path: str = ".") -> list[FileInfo]:
        """The entries of a directory, sorted by name."""
        return self._sandbox.list_dir(path)

    def stat(self, path: str) -> FileInfo:
        """One entry; a link is described, not followed."""
        return self._sandbox.stat(path)

    def exists(self, path: str) -> bool:
        """Whether something is there; a dangling link is something."""
        try:
            self._sandbox.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link, an empty directory or, with ``recursive``, a tree."""
        self._sandbox.remove(path, recursive=recursive)

    def rename(self, path: str, target: str) -> None:
        """Rename; an existing file at ``target`` is replaced."""
        self._sandbox.rename(path, target)

    def make_dir(self, path: str, *, parents: bool = True) -> None:
        """Make a directory and what is missing above it."""
        self._sandbox.make_dir(path, parents=parents)
