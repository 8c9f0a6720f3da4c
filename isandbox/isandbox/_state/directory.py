"""The one directory of this user's state: where it is, and opening it once it is known to be ours alone.

It is opened as a descriptor, and everything below is reached from there: a directory that is exchanged under its path later
changes nothing, and no path in it is too long for a socket.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Self

from isandbox._settings import StateVariables, read_state_variables
from isandbox._state.filesystems import kind_of, unsuitable
from isandbox._text import plain
from isandbox.errors import ConfigurationError, StateError

DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_INSTEAD = "set ISANDBOX_STATE_DIR to a directory of your own on a local disk"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# SQLite takes no path of more than 512 bytes, and the journal's name is longer than the register's.
_PATH_MOST = 480


def choose_path(variables: StateVariables, uid: int) -> str:
    """``$ISANDBOX_STATE_DIR``; else /var/lib/isandbox for root; else ``$XDG_STATE_HOME/isandbox`` or ~/.local/state/isandbox.

    Raises `ConfigurationError` when it is not absolute, too long, or when nothing says where it is. A relative
    ``XDG_STATE_HOME`` counts as unset, as the XDG Base Directory Specification wants.
    """
    if variables.state_dir is not None:
        if not variables.state_dir.startswith("/"):
            raise ConfigurationError(f"ISANDBOX_STATE_DIR: an absolute path, not {plain(variables.state_dir)}")
        return _checked(variables.state_dir)
    if uid == 0:
        return "/var/lib/isandbox"
    if variables.xdg_state_home is not None and variables.xdg_state_home.startswith("/"):
        return _checked(f"{variables.xdg_state_home}/isandbox")
    if variables.home is not None and variables.home.startswith("/"):
        return _checked(f"{variables.home}/.local/state/isandbox")
    raise ConfigurationError(f"no place for the state of sandboxes: HOME is not set; {_INSTEAD}")


def _checked(path: str) -> str:
    length = len(os.fsencode(path))
    if length > _PATH_MOST:
        raise ConfigurationError(f"the state directory's path has {length} bytes, {_PATH_MOST} at most; {_INSTEAD}")
    return path.rstrip("/") or "/"


def failure(path: str, error: OSError) -> StateError:
    """The `StateError` of an `OSError` of the file ``path``; the caller raises it from the cause."""
    shown = plain(path)
    if error.errno in _FULL:
        wrong = StateError(f"{shown}: no room left ({error.strerror}); free some, or {_INSTEAD}")
        wrong.retryable = True
        return wrong
    if error.errno == errno.EROFS:
        return StateError(f"{shown}: on a file system that is read-only; {_INSTEAD}")
    return StateError(f"{shown}: {error.strerror}; {_INSTEAD}")


class StateDirectory:
    """The open directory: ``path`` for messages, ``fd`` for everything else. Close it, or use it in a ``with``."""

    def __init__(self, path: str, fd: int) -> None:
        self.path, self.fd = path, fd

    @classmethod
    def open(cls, path: str | None = None) -> Self | None:
        """This user's, or the one at ``path``; ``None`` when nothing has ever made it. Raises `StateError`, `ConfigurationError`."""
        path = choose_path(read_state_variables(), os.geteuid()) if path is None else _checked(path)
        try:
            return cls(path, _open_checked(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure(path, error) from error

    @classmethod
    def make(cls, path: str | None = None) -> Self:
        """The same, made with mode 0700 when it is not there; directories above that are missing too. Raises as `open`."""
        path = choose_path(read_state_variables(), os.geteuid()) if path is None else _checked(path)
        try:
            make_all(path)
            return cls(path, _open_checked(path))
        except OSError as error:
            raise failure(path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def make_all(path: str) -> None:
    """The directory and those above that are missing, each 0700 as the XDG specification wants. Nothing is checked of what is
    there. Raises `OSError`.
    """
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for place in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.mkdir(place, 0o700)


def _open_checked(path: str) -> int:
    """Raises `OSError`, and `StateError` for what is open to others or on an unsuitable file system."""
    try:
        fd = os.open(path, DIRECTORY)
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP} and os.path.lexists(path):
            raise StateError(f"{plain(path)}: a link or a file, not a directory; remove it, or {_INSTEAD}") from error
        raise
    try:
        wrong = _wrong(path, fd)
        if wrong:
            raise StateError(f"{plain(path)}: {wrong}")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _wrong(path: str, fd: int) -> str:
    """What is wrong with the directory and what to do; empty when it is as it should be."""
    status = os.fstat(fd)
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        return f"it belongs to uid {status.st_uid}, not to uid {os.geteuid()}; {_INSTEAD}"
    if mode & 0o077:
        return f"it is open to others (mode {mode:04o}); look who has been there, then chmod 0700 {plain(path)}"
    kind = unsuitable(kind_of(fd))
    if kind:
        return f"it is on {kind}; {_INSTEAD}"
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=os.access in os.supports_effective_ids):
        return f"it is not writable (mode {mode:04o}, or a read-only file system); {_INSTEAD}"
    return ""
