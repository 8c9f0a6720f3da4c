"""What Linux has and other systems do not, with what is done there instead: the one place for such differences."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import tempfile
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM

_PASSING = frozenset({EAGAIN, EMFILE, ENFILE, ENOMEM})


def is_passing(error: OSError) -> bool:
    """Whether it tells of what this process lacks at the moment: an answer that was got with it must not be remembered."""
    return error.errno in _PASSING


def check_files_open() -> None:
    """Raise the `OSError` if no file can be opened now. After a look-up in the user data base: to the C library, what cannot be
    opened lists nobody.
    """
    os.close(os.open("/", os.O_RDONLY | os.O_CLOEXEC))


def anonymous_file(name: str, content: bytes, *, mode: int = 0o600, sealed: bool = False) -> int:
    """A descriptor of a file without a path, at its beginning. ``sealed`` where the system can: nobody changes it any more."""
    memory = hasattr(os, "memfd_create")
    if memory:
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        fd, path = tempfile.mkstemp(prefix=name)
        os.unlink(path)
    try:
        os.fchmod(fd, mode)
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        if sealed and memory:
            seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def seal(fd: int) -> None:
    """What is in an `anonymous_file` stays as it is, for whoever has it."""
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)


def open_process(pid: int) -> int:
    """A descriptor that is readable when our child ``pid`` has ended; -1 where there is no such thing."""
    return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1


def wait_for_end(pidfd: int, timeout: float) -> bool:
    """Whether the process ends within ``timeout`` seconds."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


def descriptor_path(fd: int) -> str:
    """How a program opens its own descriptor ``fd``."""
    return f"/proc/self/fd/{fd}" if hasattr(os, "memfd_create") else f"/dev/fd/{fd}"


def permit(name: str, directory: int | None = None) -> None:
    """Mode 0700 for the directory ``name``. Raises `OSError`.

    Never through a link: one that a process, which we take for dead and which is not, has put there since we looked may lead to
    a file that only we can change.
    """
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=directory, follow_symlinks=False)
        return
    held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.chmod(descriptor_path(held), 0o700)  # fchmod(2) takes no such descriptor
    finally:
        os.close(held)


def enlarge_pipe(fd: int, size: int) -> None:
    """A larger buffer where the system and the user's share allow it."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)
