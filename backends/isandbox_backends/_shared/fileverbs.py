"""The file verbs as requests to the helper and the parsing of its answers: pure, shared by both drivers."""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from isandbox._verbs import check_data, check_mode, check_part
from isandbox.command import ProcessSpec
from isandbox.policy import check_path
from isandbox.records import FileInfo, FileKind
from isandbox_backends._shared.protocol import FileOperation, ProtocolError

_ENTRY = struct.Struct("<IQqII")
_LENGTH = struct.Struct("<I")
# What one read brings without a limit of the caller's: a command can leave a file of any size for the price of a name.
READ_CEILING = 256 << 20
# What one listing may bring, in bytes of its answer: 200,000 of the longest names, a million and more of usual ones.
LIST_CEILING = 64 << 20
# Each of its entries has a path of its own, so a full directory that is deep would take a hundred times its answer.
_PATHS_CEILING = 256 << 20
# The rest of the answers: one entry, or nothing.
_SMALL = 16 << 10
# A file operation may wait for a slow disk, not for ever. A stream takes the time that its other end takes.
_TIMEOUT = 600.0


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileCall(Generic[T]):
    """``parse`` turns the operation's output into the verb's value; ``path`` goes into the error.

    ``ceiling``: bytes of output past which the operation is ended, EFBIG. It is the host's memory that they go to.
    """

    operation: FileOperation
    spec: ProcessSpec
    path: str
    parse: Callable[[bytes], T]
    ceiling: int | None = _SMALL


def read(path: str, offset: int, limit: int | None) -> FileCall[bytes]:
    check_part(offset, limit)
    if limit is not None:
        return _call(FileOperation.READ, bytes, path, str(offset), str(limit), ceiling=limit)

    def whole(raw: bytes) -> bytes:
        if len(raw) > READ_CEILING:
            raise OSError(errno.EFBIG, f"more than {READ_CEILING} bytes; read it in parts, with offset and limit", path)
        return raw

    return _call(FileOperation.READ, whole, path, str(offset), str(READ_CEILING + 1), ceiling=READ_CEILING + 1)


def read_chunks(path: str, offset: int, limit: int | None) -> FileCall[None]:
    """The driver hands the output on as it comes; nothing of it is kept."""
    check_part(offset, limit)
    argv = (check_path(path, "path"), str(offset), "" if limit is None else str(limit))
    return FileCall(FileOperation.READ, ProcessSpec(argv=argv, timeout=None, max_output=0), path, _nothing, limit)


def write(path: str, data: object, mode: int | None, append: bool) -> FileCall[None]:
    argv = _write_arguments(mode, append)
    return _call(FileOperation.WRITE, _nothing, path, *argv, data=check_data(data))


def write_chunks(path: str, mode: int | None, append: bool) -> FileCall[None]:
    """The driver writes the data to stdin as its source gives it."""
    argv = (check_path(path, "path"), *_write_arguments(mode, append))
    return FileCall(FileOperation.WRITE, ProcessSpec(argv=argv, stdin="pipe", timeout=None), path, _nothing)


def _write_arguments(mode: int | None, append: bool) -> tuple[str, str]:
    return _octal(mode, "write"), "append" if append else ""


def _octal(mode: int | None, verb: str) -> str:
    check_mode(mode, verb)
    return "" if mode is None else f"{mode:o}"


def stat_entry(path: str) -> FileCall[FileInfo]:
    return _call(FileOperation.STAT, lambda raw: _one_entry(raw, path), path)


def list_dir(path: str) -> FileCall[list[FileInfo]]:
    return _call(FileOperation.LIST, lambda raw: _listing(raw, path), path, ceiling=LIST_CEILING)


def make_dir(path: str, parents: bool, mode: int | None) -> FileCall[None]:
    return _call(FileOperation.MKDIR, _nothing, path, "parents" if parents else "", _octal(mode, "make_dir"))


def make_link(path: str, target: str) -> FileCall[None]:
    return _call(FileOperation.SYMLINK, _nothing, path, check_path(target, "target"))


def remove(path: str, recursive: bool) -> FileCall[None]:
    return _call(FileOperation.REMOVE, _nothing, path, "recursive" if recursive else "")


def rename(path: str, target: str) -> FileCall[None]:
    return _call(FileOperation.RENAME, _nothing, path, check_path(target, "target"))


def _call(
    operation: FileOperation,
    parse: Callable[[bytes], T],
    path: str,
    *arguments: str,
    data: bytes | None = None,
    ceiling: int = _SMALL,
) -> FileCall[T]:
    argv = (check_path(path, "path"), *arguments)
    return FileCall(operation, ProcessSpec(argv=argv, stdin=data, timeout=_TIMEOUT), path, parse, ceiling)


def _nothing(raw: bytes) -> None:
    if raw:
        raise ProtocolError(f"{len(raw)} bytes of answer to a verb that has none")


def _entries(raw: bytes, directory: str) -> list[FileInfo]:
    found = []
    paths = 0
    view = memoryview(raw)
    while view:
        if len(view) < _LENGTH.size or len(view) < _LENGTH.size + _LENGTH.unpack_from(view)[0]:
            raise ProtocolError("a directory entry that is cut off")
        size = _LENGTH.unpack_from(view)[0]
        found.append(_entry(bytes(view[_LENGTH.size : _LENGTH.size + size]), directory))
        paths += sys.getsizeof(found[-1].path)
        if paths > _PATHS_CEILING:
            raise OSError(errno.EFBIG, f"its entries have more than {_PATHS_CEILING} bytes of paths", directory)
        view = view[_LENGTH.size + size :]
    return found


def _listing(raw: bytes, directory: str) -> list[FileInfo]:
    entries = _entries(raw, directory)
    if not all(entry.name for entry in entries):
        raise ProtocolError("a directory entry without a name")
    return sorted(entries, key=lambda entry: entry.name)


def _one_entry(raw: bytes, path: str) -> FileInfo:
    entries = _entries(raw, "")
    if len(entries) != 1:
        raise ProtocolError(f"{len(entries)} entries for one path")
    (entry,) = entries
    name = os.path.basename(path.rstrip("/")) or path
    return FileInfo(path, name, entry.kind, entry.size, entry.mode, entry.mtime, entry.uid, entry.gid, entry.target)


def _entry(raw: bytes, directory: str) -> FileInfo:
    if len(raw) < _ENTRY.size:
        raise ProtocolError("a directory entry that is too short")
    mode, size, mtime_ns, uid, gid = _ENTRY.unpack_from(raw)
    name_raw, _, target_raw = raw[_ENTRY.size :].partition(b"\0")
    name = os.fsdecode(name_raw)
    if "/" in name or name in (".", ".."):  # callers join names to directories of their own
        raise ProtocolError("a directory entry whose name is a path")
    target = os.fsdecode(target_raw.rstrip(b"\0")) if stat.S_ISLNK(mode) else None
    path = f"{directory.rstrip('/')}/{name}" if directory != "." else name
    return FileInfo(path, name, _kind(mode), size, stat.S_IMODE(mode), mtime_ns / 1e9, uid, gid, target)


def _kind(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"
