"""What the helper asks of the operating system, with what Linux adds where there is Linux."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Collection

PLAN_FD, CONTROL_FD = 3, 4
# include/uapi/linux/prctl.h
_PDEATHSIG, _NAME, _SUBREAPER = 1, 15, 36


def _prctl(option: int, argument: int | bytes) -> bool:
    if sys.platform != "linux":
        return False
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        value = argument if isinstance(argument, bytes) else ctypes.c_ulong(argument)
        zero = ctypes.c_ulong(0)
        return bool(libc.prctl(option, value, zero, zero, zero) == 0)
    except (ImportError, OSError, AttributeError):  # a Python without ctypes, or a libc without prctl
        return False


def become_subreaper() -> bool:
    """Whether orphaned descendants come back to this process from now on."""
    return _prctl(_SUBREAPER, 1)


def die_with_parent() -> None:
    _prctl(_PDEATHSIG, signal.SIGKILL)


def name_process(name: str) -> None:
    _prctl(_NAME, name.encode())


def close_all_but(keep: Collection[int]) -> None:
    """Close every descriptor that is not in ``keep``."""
    try:
        # Not closerange: where it is a loop it would try every number up to the limit.
        open_now = [int(name) for name in os.listdir("/dev/fd")]
    except (OSError, ValueError):
        open_now = list(range(os.sysconf("SC_OPEN_MAX")))
    for fd in open_now:
        if fd not in keep:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself is closed already
                os.close(fd)


def forget_the_host() -> None:
    """Nothing is inherited but the two descriptors. Signals wait, so that a command cannot end the helper with a word."""
    close_all_but(range(CONTROL_FD + 1))
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.close(null)
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - {signal.SIGCHLD})


def default_signals() -> None:
    """In a command's process: every signal as a fresh program expects it. Python itself ignores two."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):  # glibc keeps a few for itself
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def wake_on_child() -> int:
    """A descriptor that becomes readable when a child of this process has ended."""
    wake, end = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    return wake


def drain(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass
