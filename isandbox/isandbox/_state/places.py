"""The directory of each detached sandbox, ``sandboxes/<id>`` below the state directory, with its lock and its control socket.

Whether a sandbox is alive is whether its lock is taken. The kernel frees it when the last process that has the file open ends,
however that ends, and no other process can come to hold it by chance, which a pid cannot promise.

A directory appears under its id complete, with its lock taken, by a rename. Before that it has a name with its maker in it, so
that what a maker left that was killed can be told from what another one is about to make.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from typing import Self

from isandbox._state.directory import DIRECTORY, StateDirectory, failure
from isandbox._state.ids import is_id
from isandbox._state.owner import PROC, Processes, current_process, parse_process, process_fate
from isandbox._text import plain
from isandbox.errors import StateError

SANDBOXES, LOCK, CONTROL = "sandboxes", "lock", "control"
_NEW = re.compile(r"\.new-([0-9-]+)-[0-9a-f]{16}", re.ASCII)
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Place:
    """A directory being made, with its lock held by this process as well until `close`.

    ``fd`` is the directory, where the control socket is bound as ``/proc/self/fd/<fd>/control``; ``lock`` the open lock file,
    which goes to the sandbox's first process. A fork keeps neither.
    """

    def __init__(self, parent: int, name: str, path: str) -> None:
        self.fd = self.lock = -1
        self._parent, self._name, self._path = parent, name, path

    def _fill(self) -> None:
        os.mkdir(self._name, 0o700, dir_fd=self._parent)
        self.fd = _held(os.open(self._name, DIRECTORY, dir_fd=self._parent))
        self.lock = _held(os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=self.fd))
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def control(self) -> str:
        """The path by which the control socket is bound and connected: short, wherever the state is. For this process only."""
        return f"/proc/self/fd/{self.fd}/{CONTROL}"

    def publish(self, id: str) -> None:
        """From now on it is the directory of ``id``. Raises `StateError` when there is one already."""
        _check(id)
        try:
            os.rename(self._name, id, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except OSError as error:
            raise failure(f"{self._path}/{id}", error) from error
        self._name = id

    def discard(self) -> None:
        """Remove it and let go: for a start that failed. Raises `StateError` when it cannot be removed."""
        try:
            self.close()
            _remove(self._parent, self._name, self._path)
        finally:
            self._close_parent()

    def close(self) -> None:
        """Let go. The lock stays with whoever has it too."""
        for fd in (self.fd, self.lock):
            _release(fd)
        self.fd = self.lock = -1

    def _close_parent(self) -> None:
        parent, self._parent = self._parent, -1
        _release(parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._close_parent()


class Places:
    """Of one state directory, which stays open as long as this is used. `OSError` becomes `StateError` everywhere."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory

    @property
    def path(self) -> str:
        return f"{self._directory.path}/{SANDBOXES}"

    def make(self) -> Place:
        """A new directory that has no id yet, with its lock taken. Use it in a ``with``, or `close` it after `publish`."""
        parent = -1
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(SANDBOXES, 0o700, dir_fd=self._directory.fd)
            parent = _held(os.open(SANDBOXES, DIRECTORY, dir_fd=self._directory.fd))
            place = Place(parent, f".new-{current_process()}-{secrets.token_hex(8)}", self.path)
            try:
                place._fill()  # noqa: SLF001 - of this module
            except BaseException:
                with contextlib.suppress(StateError):
                    place.discard()
                raise
        except OSError as error:
            _release(parent)
            raise failure(self.path, error) from error
        return place

    def open(self, id: str) -> int | None:
        """The directory of ``id``, for connecting to ``/proc/self/fd/<fd>/control``; the caller closes it. ``None``: there is none."""
        _check(id)
        return self._open(f"{SANDBOXES}/{id}")

    def is_alive(self, id: str) -> bool:
        """Whether somebody holds the lock of ``id``. Makes and changes nothing; without a directory or a lock file: no."""
        _check(id)
        with self._parent() as parent:
            return parent is not None and _is_locked(parent, id, self.path)

    def ids(self) -> tuple[str, ...]:
        """The ids that have a directory, alive or not."""
        with self._parent() as parent:
            return () if parent is None else tuple(sorted(name for name in os.listdir(parent) if is_id(name)))

    def remove(self, id: str) -> bool:
        """Remove the directory of a sandbox that has ended. True when it was there. Raises `StateError` when it is alive."""
        _check(id)
        with self._parent() as parent:
            if parent is None:
                return False
            if _is_locked(parent, id, self.path):
                raise StateError(f"{plain(self.path)}/{id}: this sandbox is alive")
            return _remove(parent, id, self.path)

    def remove_leftovers(self, processes: Processes = PROC) -> tuple[str, ...]:
        """Remove directories that never got an id and whose maker is dead. Returns their names."""
        removed = []
        with self._parent() as parent:
            for name in () if parent is None else os.listdir(parent):
                match = _NEW.fullmatch(name)
                maker = None if match is None else parse_process(match[1])
                if parent is None or maker is None or process_fate(maker, processes) != "dead":
                    continue
                if not _is_locked(parent, name, self.path) and _remove(parent, name, self.path):
                    removed.append(name)
        return tuple(removed)

    @contextlib.contextmanager
    def _parent(self) -> Iterator[int | None]:
        fd = self._open(SANDBOXES)
        try:
            yield fd
        except OSError as error:
            raise failure(self.path, error) from error
        finally:
            if fd is not None:
                os.close(fd)

    def _open(self, name: str) -> int | None:
        try:
            return os.open(name, DIRECTORY, dir_fd=self._directory.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure(f"{self._directory.path}/{name}", error) from error


def _check(id: str) -> None:
    if not is_id(id):
        raise StateError(f"{plain(str(id)[:100])} is no id of a sandbox")


def _is_locked(parent: int, name: str, path: str) -> bool:
    try:
        lock = os.open(f"{name}/{LOCK}", os.O_RDONLY | _FILE, dir_fd=parent)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise failure(f"{path}/{name}/{LOCK}", error) from error
    try:
        # Shared, so that two who look at once do not take each other for the sandbox.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _remove(parent: int, name: str, path: str) -> bool:
    """The directory with the files in it; there are no directories in one of ours. Another may be removing it as well."""
    try:
        fd = os.open(name, DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise failure(f"{path}/{name}", error) from error
    try:
        for file in sorted(os.listdir(fd)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file, dir_fd=fd)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(name, dir_fd=parent)
    except OSError as error:
        raise failure(f"{path}/{name}", error) from error
    finally:
        os.close(fd)
    return True


def _held(fd: int) -> int:
    _HELD.add(fd)
    return fd


def _release(fd: int) -> None:
    if fd in _HELD:  # not in a child, where another file has the number by now
        # First out of the set: a child forked in between would else close what has the number by then.
        _HELD.discard(fd)
        with contextlib.suppress(OSError):
            os.close(fd)


def _after_fork() -> None:
    """A child would hold the lock too, and a sandbox that has ended would look alive for as long as the child lives."""
    for fd in _HELD:
        with contextlib.suppress(OSError):
            os.close(fd)
    _HELD.clear()


_HELD: set[int] = set()
os.register_at_fork(after_in_child=_after_fork)
