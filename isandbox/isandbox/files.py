"""Comfort over the port's file verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isandbox.command import check_input
from isandbox.errors import ConfigurationError

if TYPE_CHECKING:
    from isandbox.records import FileInfo
    from isandbox.sandbox import ISandbox


class Files:
    """``sandbox.files``: the verbs of `ISandbox` under the names that people expect, and texts beside bytes."""

    def __init__(self, sandbox: ISandbox) -> None:
        self._sandbox = sandbox

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes from ``offset``, at most ``limit``."""
        return await self._sandbox.read(path, offset=offset, limit=limit)

    async def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The whole file as a text. Raises `UnicodeDecodeError` for bytes that are none, unless ``errors`` says otherwise."""
        return (await self._sandbox.read(path)).decode(encoding, errors)

    async def write(self, path: str, data: str | bytes, *, mode: int | None = None, append: bool = False) -> None:
        """Create or overwrite; a text is written as UTF-8."""
        raw = check_input(data)
        if raw is None:
            raise ConfigurationError("write: data is a text or bytes, not None")
        await self._sandbox.write(path, raw, mode=mode, append=append)

    async def list(self, path: str = ".") -> list[FileInfo]:
        """The entries of a directory, sorted by name."""
        return await self._sandbox.list_dir(path)

    async def stat(self, path: str) -> FileInfo:
        """One entry; a link is described, not followed."""
        return await self._sandbox.stat(path)

    async def exists(self, path: str) -> bool:
        """Whether something is there; a dangling link is something."""
        try:
            await self._sandbox.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link, an empty directory or, with ``recursive``, a tree."""
        await self._sandbox.remove(path, recursive=recursive)

    async def rename(self, path: str, target: str) -> None:
        """Rename; an existing file at ``target`` is replaced."""
        await self._sandbox.rename(path, target)

    async def make_dir(self, path: str, *, parents: bool = True) -> None:
        """Make a directory and what is missing above it."""
        await self._sandbox.make_dir(path, parents=parents)
