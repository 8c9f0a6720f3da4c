"""Reading a small text file of the host whose name, or content, somebody else may have chosen."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple, NoReturn

from isandbox._text import plain
from isandbox.errors import ConfigurationError

# Neither waits for a FIFO's writer, nor makes a terminal ours. Windows has none of them.
_CALM = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK"))
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def read_text(path: str, where: str, *, most: int, follow: bool = True, owned: bool = False) -> str | None:
    """The text of a regular file of at most ``most`` bytes of UTF-8; ``None`` when there is none, or it cannot be looked for.

    It is looked at before it is opened, so that no device and no FIFO ever is, and again afterwards. ``follow``: whether it may be
    a link. ``owned``: it must be ours or root's, and no other's to write. Raises `ConfigurationError` that begins with ``where``.
    """
    try:
        seen = os.stat(path, follow_symlinks=follow)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        if follow and os.path.lexists(path):
            raise ConfigurationError(f"{where}: a link to nothing that can be read") from None
        return None
    except OSError as error:
        _fail(where, error)
    _check_kind(seen, where)
    try:
        fd = os.open(path, os.O_RDONLY | _CALM | (0 if follow else _NO_LINK))
    except OSError as error:
        _fail(where, error)
    try:
        opened = os.fstat(fd)
        _check_kind(opened, where)
        if owned:
            check_owner(opened, where)
        return _decoded(_read(fd, where, most), where)
    finally:
        os.close(fd)


class _Owned(NamedTuple):
    """What `check_owner` looks at."""

    st_uid: int
    st_mode: int


def check_owner(status: os.stat_result | _Owned, where: str) -> None:
    """Raises `ConfigurationError` for what another user could have written."""
    user = getattr(os, "geteuid", None)
    if user is None:  # no owners and modes as here
        return
    if status.st_uid not in (user(), 0):
        raise ConfigurationError(f"{where}: it belongs to uid {status.st_uid}, not to you (uid {user()}) or root: chown it")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise ConfigurationError(f"{where}: others may write to it (mode {stat.S_IMODE(status.st_mode):04o}): chmod go-w")


def check_directory(path: str) -> None:
    """The same for the directory that a file is in: who may write there can put another in its place."""
    try:
        status = os.stat(path)
    except OSError as error:
        _fail(plain(path), error)
    check_owner(status, plain(path))


def check_way(path: str, where: str) -> None:
    """Raises `ConfigurationError` where another user could have put a file of ours in this one's place: by a link of theirs, or in a
    directory, of the name or of what it leads to, where others may write and that is not sticky.
    """
    try:
        entries = [os.lstat(path), *(os.stat(os.path.dirname(name) or ".") for name in (path, os.path.realpath(path)))]
    except OSError as error:
        _fail(where, error)
    for status, what in zip(entries, ("the link", "its directory", "the directory that it leads to"), strict=True):
        if stat.S_ISLNK(status.st_mode):  # a link's own mode says nothing
            check_owner(_Owned(status.st_uid, 0), f"{where}: {what}")
        elif what != "the link":
            sticky = status.st_mode & stat.S_ISVTX
            check_owner(_Owned(status.st_uid, 0 if sticky else status.st_mode), f"{where}: {what}")


def _check_kind(status: os.stat_result, where: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise ConfigurationError(f"{where}: a symbolic link, which is not followed here; put a regular file there")
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(f"{where}: not a regular file")


def _read(fd: int, where: str, most: int) -> bytes:
    parts = []
    left = most + 1
    try:
        while left > 0 and (part := os.read(fd, left)):
            parts.append(part)
            left -= len(part)
    except OSError as error:
        _fail(where, error)
    if left <= 0:
        raise ConfigurationError(f"{where}: over the limit of {most} bytes")
    return b"".join(parts)


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        position = error.start
    # Outside: the codec's error holds the whole content, which may have secrets in it.
    raise ConfigurationError(f"{where}: byte {position} is not UTF-8")


def _fail(where: str, error: OSError) -> NoReturn:
    raise ConfigurationError(f"{where}: {error.strerror or error}") from error
