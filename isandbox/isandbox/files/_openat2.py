"""The system call openat2, which the standard library does not have. The one module of this package that loads ctypes."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache

# linux/openat2.h; the number is the same on every architecture since 5.6.
_SYS_OPENAT2 = 437
NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x02, 0x04, 0x08
# RESOLVE_BENEATH may answer EAGAIN when something was renamed meanwhile.
_TRIES = 128


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def available() -> bool:
    """Whether this kernel has it and no filter takes it away (old ones say EPERM to every number that they do not know)."""
    if sys.platform != "linux":
        return False
    try:
        os.close(openat2(-100, ".", os.O_PATH | os.O_CLOEXEC, 0, BENEATH))  # AT_FDCWD
    except OSError as error:
        return error.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)
    return True


def openat2(directory: int, path: str, flags: int, mode: int, resolve: int) -> int:
    """Raises `OSError`: EXDEV for a path that would leave ``directory``, ELOOP for a link where none may be."""
    how = _OpenHow(flags, mode, resolve)
    for _ in range(_TRIES):
        fd = _libc().syscall(
            ctypes.c_long(_SYS_OPENAT2), ctypes.c_int(directory), ctypes.c_char_p(os.fsencode(path)), ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )  # fmt: skip
        if fd >= 0:
            return int(fd)
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
