"""Temporary directories of the host that a sandbox writes into, and removing them whatever it left there."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import tempfile

from isandbox._state.owner import PROC, Processes, current_process, parse_process, process_fate
from isandbox.errors import SandboxError
from isandbox_backends._shared.portable import permit

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNED = re.compile(r"isandbox-([0-9]+-[0-9]+-[0-9]+)-[0-9a-f]{16}", re.ASCII)


def make_scratch(*inside: str, id: str | None = None) -> str:
    """A new 0700 directory with such directories in it. Raises `SandboxError` and leaves nothing when it cannot be made.

    Its name says that it ends with this process, or with the sandbox ``id``, which outlives it.
    """
    path = scratch_path(id or f"{current_process()}-{secrets.token_hex(8)}")
    try:
        os.mkdir(path, 0o700)
        for name in inside:
            os.mkdir(f"{path}/{name}", 0o700)
    except BaseException as error:
        for place in (*(f"{path}/{name}" for name in inside), path):
            with contextlib.suppress(OSError):
                os.rmdir(place)
        if isinstance(error, OSError):
            raise SandboxError(f"a temporary directory for the sandbox could not be made: {error}") from error
        raise
    return path


def scratch_path(name: str) -> str:
    """Where the directory of this name is, or will be."""
    return os.path.join(os.path.realpath(tempfile.gettempdir()), f"isandbox-{name}")


def remove_dead_scratch(directory: str | None = None, processes: Processes = PROC) -> tuple[str, ...]:
    """Remove what owners that are dead left in the temporary directory, or in ``directory``. Returns the paths that are gone.

    Only directories of this user's whose name has an owner of this pid namespace in it. Nothing on a file system that other
    machines may have too: their first pid namespaces have the same number. What cannot be removed stays. Never raises `OSError`.
    """
    top = os.path.realpath(tempfile.gettempdir() if directory is None else directory)
    removed = []
    with contextlib.suppress(OSError):
        if _is_shared(top):
            return ()
        for name in os.listdir(top):
            match = _OWNED.fullmatch(name)
            owner = None if match is None else parse_process(match[1])
            if owner is None or process_fate(owner, processes) != "dead":
                continue
            with contextlib.suppress(OSError):
                status = os.lstat(f"{top}/{name}")
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    remove_tree(f"{top}/{name}")
                    removed.append(f"{top}/{name}")
    return tuple(removed)


def _is_shared(path: str) -> bool:
    from isandbox._state.filesystems import kind_of, unsuitable

    fd = os.open(path, _DIRECTORY)
    try:
        return bool(unsuitable(kind_of(fd)))
    finally:
        os.close(fd)


def remove_tree(path: str) -> None:
    """Remove a directory with all that is in it; links are removed, not followed. Missing is fine.

    A hostile command can nest directories deeper than Python recurses or a path is long, so the tree is flattened: every
    directory found in a subdirectory is moved up into the top and emptied there. Two descriptors, no recursion, no paths.
    Raises `OSError` when something cannot be removed.
    """
    try:
        os.rmdir(path)
        return
    except FileNotFoundError:
        return
    except OSError:
        pass
    top = _open_whatever_its_mode(path)
    try:
        while names := os.listdir(top):
            for name in names:
                _remove_entry(top, name)
    finally:
        os.close(top)
    os.rmdir(path)


def _open_whatever_its_mode(path: str) -> int:
    """Our own directory, mounted as a workspace: a command may have taken every permission away from it."""
    try:
        top = os.open(path, _DIRECTORY)
    except PermissionError:
        permit(path)
        top = os.open(path, _DIRECTORY)
    with contextlib.suppress(PermissionError):  # somebody else's: removing from it will say so
        os.fchmod(top, 0o700)
    return top


def _remove_entry(top: int, name: str) -> None:
    if _is_directory(top, name):
        _empty_into(top, name)
        os.rmdir(name, dir_fd=top)
    else:
        os.unlink(name, dir_fd=top)


def _empty_into(top: int, name: str) -> None:
    """Everything below ``name`` is removed, or moved up into ``top`` when it is a directory."""
    with contextlib.suppress(PermissionError):  # somebody else's: opening it will say so
        permit(name, top)  # a command may have taken the permissions away, also from itself
    inner = os.open(name, _DIRECTORY, dir_fd=top)
    try:
        for entry in os.listdir(inner):
            if _is_directory(inner, entry):
                with contextlib.suppress(PermissionError):
                    permit(entry, inner)  # moving a directory writes its ".."
                # A name that a command can foresee it can also take.
                os.rename(entry, f".isandbox-removing-{secrets.token_hex(16)}", src_dir_fd=inner, dst_dir_fd=top)
            else:
                os.unlink(entry, dir_fd=inner)
    finally:
        os.close(inner)


def _is_directory(directory: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
