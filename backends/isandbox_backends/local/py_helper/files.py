"""File verbs, run in a process of their own in place of a program. The reference is backends/helper/fileops.h."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable

from .removal import remove
from .wire import write_all

_BUFFER = 65_536
_ENTRY = struct.Struct("<IIQqII")
# A command can give a file any second; the format ends in the year 2262.
_TIME_MAX = 9_223_372_036 * 10**9
_OPEN = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def operate(operation: int, argv: list[bytes]) -> None:
    """Answers go to fd 1, content comes from fd 0. Raises `OSError`."""
    count, function = _OPERATIONS.get(operation, (-1, None))
    if function is None or len(argv) != count:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    function(*argv)


def _read(path: bytes, offset: bytes, limit: bytes) -> None:
    fd = os.open(path, os.O_RDONLY | _OPEN)
    _check_kind(fd)
    if int(offset):
        os.lseek(fd, int(offset), os.SEEK_SET)
    _copy(fd, 1, int(limit) if limit else None)


def _write(path: bytes, mode: bytes, append: bytes) -> None:
    _make_parents(path)
    flags = os.O_WRONLY | os.O_CREAT | _OPEN | (os.O_APPEND if append else 0)
    fd = os.open(path, flags, int(mode, 8) if mode else 0o666)
    _check_kind(fd)
    if not append:
        os.ftruncate(fd, 0)
    if mode:
        os.fchmod(fd, int(mode, 8))
    _copy(0, fd, None)


def _stat(path: bytes) -> None:
    write_all(1, _entry(path, b"", None))


def _list(path: bytes) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPEN)
    batch = bytearray()
    with os.scandir(directory) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            try:
                batch += _entry(name, name, directory)
            except FileNotFoundError:  # gone since: not in the list
                continue
            if len(batch) >= _BUFFER:
                write_all(1, batch)
                batch.clear()
    write_all(1, batch)


def _mkdir(path: bytes, parents: bytes, mode: bytes) -> None:
    if parents:
        _make_parents(path)
    try:
        os.mkdir(path, int(mode, 8) if mode else 0o777)
    except FileExistsError:
        if not parents or not os.path.isdir(path):
            raise
    else:
        if mode:  # the umask had its say
            os.chmod(path, int(mode, 8))


def _symlink(path: bytes, target: bytes) -> None:
    os.symlink(target, path)


def _rename(path: bytes, target: bytes) -> None:
    os.rename(path, target)


def _check_kind(fd: int) -> None:
    """Regular files only: a FIFO or socket would block or talk to somebody, and a device never ends."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def _copy(source: int, target: int, limit: int | None) -> None:
    while limit is None or limit > 0:
        data = os.read(source, _BUFFER if limit is None else min(limit, _BUFFER))
        if not data:
            return
        write_all(target, data)
        limit = None if limit is None else limit - len(data)


def _make_parents(path: bytes) -> None:
    at = path.find(b"/", 1)
    while at >= 0:
        part = path[:at]
        try:
            os.mkdir(part, 0o777)
        except OSError:
            os.stat(part)  # a read-only or foreign parent that is there already is no failure
        at = path.find(b"/", at + 1)


def _entry(path: bytes, name: bytes, directory: int | None) -> bytes:
    found = os.stat(path, dir_fd=directory, follow_symlinks=False)
    target = os.readlink(path, dir_fd=directory) if stat.S_ISLNK(found.st_mode) else b""
    texts = name + b"\0" + target + b"\0"
    length = _ENTRY.size - 4 + len(texts)
    mtime = max(-_TIME_MAX, min(found.st_mtime_ns, _TIME_MAX))
    head = _ENTRY.pack(length, found.st_mode, found.st_size, mtime, found.st_uid, found.st_gid)
    return head + texts


_OPERATIONS: dict[int, tuple[int, Callable[..., None]]] = {
    1: (3, _read),
    2: (3, _write),
    3: (1, _stat),
    4: (1, _list),
    5: (3, _mkdir),
    6: (2, remove),
    7: (2, _rename),
    8: (2, _symlink),
}
