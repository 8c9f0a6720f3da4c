"""Removing a file, a directory, or a tree of any depth."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from itertools import count

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(path: bytes, recursive: bytes) -> None:
    """A file, a link (never what it points to), an empty directory, or with ``recursive`` a tree. Raises `OSError`."""
    try:
        os.unlink(path)
        return
    except OSError as error:
        if error.errno not in {errno.EISDIR, errno.EPERM}:  # the second is how POSIX says "a directory"
            raise
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST} or not recursive:
            raise
        _remove_tree(path)


def _remove_tree(path: bytes) -> None:
    """Flatten it: every directory found in a subdirectory is moved up into the top and emptied there.

    Two descriptors, no recursion and no long paths, whatever depth a command has built.
    """
    top = os.open(path, _DIRECTORY)
    serial = count(time.monotonic_ns())
    while names := os.listdir(top):
        for name in names:
            if not _remove_simple(top, name):
                _empty_into(top, name, serial)
                os.rmdir(name, dir_fd=top)
    os.close(top)
    os.rmdir(path)


def _empty_into(top: int, name: str, serial: count[int]) -> None:
    inner = _open(top, name)
    try:
        for entry in os.listdir(inner):
            if _remove_simple(inner, entry):
                continue
            _allow(inner, entry)  # moving a directory writes its ".."
            os.rename(entry, f".isandbox-removing-{next(serial)}", src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)


def _remove_simple(directory: int, name: str) -> bool:
    """Remove what is no directory, or an empty one; false for one that holds something."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=directory)
        return True
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            return False
        raise
    return True


def _open(directory: int, name: str) -> int:
    with contextlib.suppress(PermissionError):
        return os.open(name, _DIRECTORY, dir_fd=directory)
    _allow(directory, name)
    return os.open(name, _DIRECTORY, dir_fd=directory)


def _allow(directory: int, name: str) -> None:
    """A command may have taken the permissions of its own directory away; somebody else's says so when it is touched."""
    with contextlib.suppress(OSError):
        os.chmod(name, 0o700, dir_fd=directory)
