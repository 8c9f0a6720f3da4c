"""Files below one directory, whatever others do to it meanwhile: every step by descriptor, none by path."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import NoReturn, Self

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CALM = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_MAX_LINKS = 40  # Linux: MAXSYMLINKS


class Beneath:
    """A directory that is opened once; no path leads out of it.

    Paths are relative. One that would leave the directory, by "..", an absolute path or a link, is `OSError` with EXDEV. Links
    on the way are ELOOP, unless ``follow`` allows those that stay beneath; what opens for writing, makes or removes something
    never follows one. Linux resolves in one call (openat2); elsewhere, and where a filter forbids that, component by
    component. Several threads may use it; close it when none does any more, or use it with ``with``.
    """

    def __init__(self, fd: int, *, one_call: bool | None = None) -> None:
        """Takes ``fd`` over. ``one_call``: whether to use openat2; found out when not given."""
        self.fd = fd
        if one_call is None:
            from isandbox.files._openat2 import available

            one_call = available()
        self._one_call = one_call

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, one_call: bool | None = None) -> Self:
        """The directory at ``path``, which is the caller's own: links in it are followed."""
        return cls(os.open(path, _DIRECTORY), one_call=one_call)

    def open_at(self, path: str, flags: int, mode: int = 0, *, follow: bool = False) -> int:
        """A new descriptor. The last component is as little a link as the others unless ``follow``."""
        flags |= os.O_CLOEXEC
        if "\0" in path:  # for the system call it would end there
            raise ValueError("embedded null byte")
        if self._one_call:
            from isandbox.files import _openat2

            resolve = _openat2.BENEATH | _openat2.NO_MAGICLINKS | (0 if follow else _openat2.NO_SYMLINKS)
            try:
                return _openat2.openat2(self.fd, path, flags, mode if flags & os.O_CREAT else 0, resolve)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _fail(errno.EXDEV, path)
        return _Walk(self.fd, path, follow=follow).open(flags, mode)

    def open_directory(self, path: str, *, follow: bool = False) -> int:
        return self.open_at(path, _DIRECTORY, follow=follow)

    def open_file(self, path: str, *, follow: bool = False) -> int:
        """A regular file for reading; anything else is `OSError`, without waiting for a FIFO's other end."""
        fd = self.open_at(path, os.O_RDONLY | _CALM, follow=follow)
        try:
            kind = os.fstat(fd).st_mode
            if stat.S_ISDIR(kind):
                _fail(errno.EISDIR, path)
            if not stat.S_ISREG(kind):
                _fail(errno.EINVAL, path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def create_file(self, path: str, mode: int = 0o666) -> int:
        """A new file for writing; `FileExistsError` when anything has the name. The umask applies."""
        return self.open_at(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CALM, mode)

    def stat(self, path: str) -> os.stat_result:
        """One entry; a link is described, not followed."""
        with self._parent(path) as (parent, name):
            return os.stat(name, dir_fd=parent, follow_symlinks=False)

    def read_link(self, path: str) -> str:
        with self._parent(path) as (parent, name):
            return os.readlink(name, dir_fd=parent)

    def list(self, path: str = ".", *, most: int | None = None) -> list[tuple[str, os.stat_result]]:
        """Names and what they are, sorted by name; what is gone meanwhile is left out. Any ``most`` of them when there are more."""
        fd = self.open_directory(path)
        try:
            found = []
            with os.scandir(fd) as entries:
                names = sorted(entry.name for entry in islice(entries, most))
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    found.append((name, os.stat(name, dir_fd=fd, follow_symlinks=False)))
            return found
        finally:
            os.close(fd)

    def make_dir(self, path: str, mode: int = 0o777) -> None:
        with self._parent(path) as (parent, name):
            os.mkdir(name, mode, dir_fd=parent)

    def make_link(self, path: str, target: str) -> None:
        with self._parent(path) as (parent, name):
            os.symlink(target, name, dir_fd=parent)

    def rename(self, path: str, target: str) -> None:
        """An existing file or link at ``target`` is replaced, and so is an empty directory by a directory."""
        with self._parent(path) as (parent, name), self._parent(target) as (other, new):
            os.rename(name, new, src_dir_fd=parent, dst_dir_fd=other)

    def remove(self, path: str) -> None:
        """A file, link or empty directory."""
        with self._parent(path) as (parent, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)

    def remove_tree(self, path: str) -> None:
        """Whatever is there, with all that is in it; nothing when nothing is."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(self.stat(path).st_mode):
                with type(self)(self.open_directory(path), one_call=self._one_call) as inner:
                    inner.clear()
            self.remove(path)

    def clear(self) -> None:
        """Remove everything in it, by one more descriptor: what is in a directory goes up before the directory goes.

        So neither depth nor the length of a path has a limit, which whoever filled the tree could have gone beyond.
        """
        serial = 0
        while names := os.listdir(self.fd):
            for name in names:
                if _unlinked(name, self.fd):
                    continue
                directory = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
                try:
                    for inner in os.listdir(directory):
                        if not _unlinked(inner, directory):
                            serial = _move(inner, directory, self.fd, serial)
                finally:
                    os.close(directory)
                os.rmdir(name, dir_fd=self.fd)

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The directory that holds the last component, and that component, which names an entry and no place."""
        if path.startswith("/"):
            _fail(errno.EXDEV, path)
        directory, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            _fail(errno.EINVAL, path)
        fd = self.open_directory(directory) if directory else self.fd
        try:
            yield fd, name
        except OSError as error:
            if error.filename == name:  # its caller knows the whole path
                error.filename = path
            raise
        finally:
            if directory:
                os.close(fd)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


class _Walk:
    """What openat2 does, a component at a time: each directory is opened as a directory and no link, from the one before.

    Going up takes the descriptor that led down, so that a directory which was moved meanwhile leads nowhere else.
    """

    def __init__(self, top: int, path: str, *, follow: bool) -> None:
        self._path, self._follow = path, follow
        self._opened: list[int] = []
        self._top = top
        self._left = self._parts(path)
        self._links = 0

    def _parts(self, path: str) -> list[str]:
        if not path:
            _fail(errno.ENOENT, self._path)
        if path.startswith("/"):
            _fail(errno.EXDEV, self._path)
        return path.split("/")

    def open(self, flags: int, mode: int) -> int:
        try:
            while True:
                name = self._left.pop(0)
                if self._left or name in ("", ".", ".."):
                    self._step(name)
                    if not self._left:
                        return self._here(flags)
                elif (fd := self._last(name, flags, mode)) is not None:
                    return fd
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from None
        finally:
            for fd in self._opened:
                os.close(fd)

    @property
    def _fd(self) -> int:
        return self._opened[-1] if self._opened else self._top

    def _here(self, flags: int) -> int:
        if flags & os.O_CREAT:
            _fail(errno.EEXIST if flags & os.O_EXCL else errno.EISDIR, self._path)
        return os.open(".", flags, dir_fd=self._fd)

    def _step(self, name: str) -> None:
        if name in ("", "."):
            return
        if name == "..":
            if not self._opened:
                _fail(errno.EXDEV, self._path)
            os.close(self._opened.pop())
            return
        try:
            self._opened.append(os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._fd))
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
                raise
            self._link(name, error)

    def _link(self, name: str, error: OSError) -> None:
        """``name`` was no directory: go where the link says, if it is one and links are followed."""
        try:
            target = os.readlink(name, dir_fd=self._fd)
        except OSError:
            raise error from None
        self._links += 1
        if not self._follow or self._links > _MAX_LINKS:
            _fail(errno.ELOOP, self._path)
        self._left[:0] = self._parts(target)

    def _last(self, name: str, flags: int, mode: int) -> int | None:
        """``None`` when it was a link, which is followed next."""
        try:
            return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=self._fd)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
                raise
            self._link(name, error)
        return None


def _unlinked(name: str, directory: int) -> bool:
    """False for a directory: EISDIR on Linux, EPERM elsewhere."""
    try:
        os.unlink(name, dir_fd=directory)
    except (IsADirectoryError, PermissionError):
        return False
    return True


def _move(name: str, directory: int, target: int, serial: int) -> int:
    """Move a directory under a number that is free; the next number. Names may have been chosen to be in the way."""
    while True:
        serial += 1
        try:
            os.rename(name, f".{serial}", src_dir_fd=directory, dst_dir_fd=target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            return serial


def _fail(number: int, path: str) -> NoReturn:
    text = "the path leads out of the directory" if number == errno.EXDEV else os.strerror(number)
    raise OSError(number, text, path)
