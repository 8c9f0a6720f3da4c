"""A POSIX-like tree of files in memory: no links, no owners, the standard library's errors."""

from __future__ import annotations

import errno
import os
import posixpath
import time
from dataclasses import dataclass, field

from isandbox.policy import check_path
from isandbox.records import FileInfo


@dataclass(slots=True)
class _File:
    data: bytes = b""
    mode: int = 0o644
    mtime: float = field(default_factory=time.time)


class MemoryFiles:
    """``workspace`` is where relative paths start. /tmp and /usr are there, as everywhere."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._files: dict[str, _File] = {}
        self._dirs: dict[str, float] = {"/": time.time()}
        self._modes: dict[str, int] = {}
        for path in (workspace, "/tmp", "/usr"):
            self._make_parents(posixpath.join(path, "x"))

    def _locate(self, path: str) -> str:
        """The absolute path. Raises for a name past the kernel's NAME_MAX, and for a file in the place of a directory."""
        where = posixpath.normpath(posixpath.join(self._workspace, check_path(path, "path")))
        if any(len(os.fsencode(part)) > 255 for part in where.split("/")):
            raise _error(errno.ENAMETOOLONG, path)
        parent = posixpath.dirname(where)
        while parent != "/":
            if parent in self._files:
                raise _error(errno.ENOTDIR, path)
            parent = posixpath.dirname(parent)
        return where

    def _make_parents(self, where: str) -> None:
        parent = posixpath.dirname(where)
        while parent not in self._dirs:
            self._dirs[parent] = time.time()
            parent = posixpath.dirname(parent)

    def read(self, path: str) -> bytes:
        where = self._locate(path)
        if where in self._dirs:
            raise _error(errno.EISDIR, path)
        if where not in self._files:
            raise _error(errno.ENOENT, path)
        return self._files[where].data

    def write(self, path: str, data: bytes, mode: int | None, *, append: bool) -> None:
        where = self._locate(path)
        if where in self._dirs:
            raise _error(errno.EISDIR, path)
        self._make_parents(where)
        file = self._files.setdefault(where, _File())
        file.data = file.data + data if append else bytes(data)
        file.mtime = time.time()
        if mode is not None:
            file.mode = mode

    def stat(self, path: str) -> FileInfo:
        where = self._locate(path)
        name = posixpath.basename(where) or where
        if where in self._dirs:
            return FileInfo(path, name, "directory", 4096, self._modes.get(where, 0o755), self._dirs[where], 1000, 1000)
        if where not in self._files:
            raise _error(errno.ENOENT, path)
        file = self._files[where]
        return FileInfo(path, name, "file", len(file.data), file.mode, file.mtime, 1000, 1000)

    def list_dir(self, path: str) -> list[FileInfo]:
        where = self._locate(path)
        if where in self._files:
            raise _error(errno.ENOTDIR, path)
        if where not in self._dirs:
            raise _error(errno.ENOENT, path)
        children = sorted(p for p in (*self._files, *self._dirs) if p != "/" and posixpath.dirname(p) == where)
        prefix = "" if path == "." else path.rstrip("/") + "/"
        return [self._child(prefix, child) for child in children]

    def _child(self, prefix: str, where: str) -> FileInfo:
        entry = self.stat(where)
        path = prefix + entry.name
        return FileInfo(path, entry.name, entry.kind, entry.size, entry.mode, entry.mtime, entry.uid, entry.gid)

    def make_dir(self, path: str, *, parents: bool, mode: int | None = None) -> None:
        where = self._locate(path)
        if where in self._files or (where in self._dirs and not parents):
            raise _error(errno.EEXIST, path)
        if not parents and posixpath.dirname(where) not in self._dirs:
            raise _error(errno.ENOENT, path)
        if mode is not None and where not in self._dirs:
            self._modes[where] = mode
        self._make_parents(posixpath.join(where, "x"))

    def remove(self, path: str, *, recursive: bool) -> None:
        where = self._locate(path)
        if where in self._files:
            del self._files[where]
            return
        if where not in self._dirs:
            raise _error(errno.ENOENT, path)
        inside = self._inside(where)
        if inside and not recursive:
            raise _error(errno.ENOTEMPTY, path)
        for p in [*inside, where]:
            self._files.pop(p, None)
            self._dirs.pop(p, None)
            self._modes.pop(p, None)

    def rename(self, path: str, target: str) -> None:
        source, goal = self._locate(path), self._locate(target)
        if source not in self._files and source not in self._dirs:
            raise _error(errno.ENOENT, path)
        if posixpath.dirname(goal) not in self._dirs:
            raise _error(errno.ENOENT, target)
        if source == goal:
            return
        self._refuse_rename(source, goal, path)
        for table in (self._files, self._dirs, self._modes):
            for p in [p for p in table if p == source or p.startswith(source + "/")]:
                table[goal + p[len(source) :]] = table.pop(p)  # type: ignore[assignment]

    def _refuse_rename(self, source: str, goal: str, path: str) -> None:
        """What rename(2) refuses."""
        if goal.startswith(source + "/"):
            raise _error(errno.EINVAL, path)
        if source in self._files and goal in self._dirs:
            raise _error(errno.EISDIR, path)
        if source in self._dirs and goal in self._files:
            raise _error(errno.ENOTDIR, path)
        if source in self._dirs and self._inside(goal):
            raise _error(errno.ENOTEMPTY, path)

    def _inside(self, where: str) -> list[str]:
        return [p for p in (*self._files, *self._dirs) if p.startswith(where + "/")]


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
