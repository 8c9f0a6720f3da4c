"""When the sandbox ends of its own accord. Seconds; the time goes on while the machine sleeps, where its clocks can tell."""

from __future__ import annotations

import socket
import struct
import time

from .wire import Farewell

_STATUS = struct.Struct("<IIIIQQQ")
_STATUS_VERSION = 1
_NEVER = (1 << 64) - 1
_LONGEST_WAIT = 30.0  # waits stand still while the machine sleeps
_MOST = 1e9  # 31 years: longer is as good as for ever


def _now() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Life:
    """``lifetime`` counts from the start, ``idle`` from the last use; 0 for neither."""

    def __init__(self, lifetime: float, idle: float) -> None:
        self._born = self._used = _now()
        self._idle = min(idle, _MOST)
        self._end = self._born + min(lifetime, _MOST) if lifetime else None
        self._was_busy = False

    def use(self) -> None:
        self._used = _now()

    def renew(self, seconds: float) -> None:
        self._end = _now() + min(seconds, _MOST)

    def wait(self, *, busy: bool) -> float | Farewell | None:
        """Why it has ended; else seconds until it may have, or ``None``. ``busy``: a command runs."""
        now, next_ = _now(), self._end
        if busy or self._was_busy:  # until now, or until a moment ago
            self._used = now
        self._was_busy = busy
        if self._end is not None and self._end <= now:
            return Farewell.LIFETIME
        if self._idle and not busy:
            if self._used + self._idle <= now:
                return Farewell.IDLE_TIMEOUT
            next_ = min(next_ or now + _MOST, self._used + self._idle)
        return None if next_ is None else min(next_ - now, _LONGEST_WAIT)

    def status(self, commands: int) -> bytes:
        """The answer to STATUS."""
        now = _now()
        left = _NEVER if self._end is None else max(0, int((self._end - now) * 1000))
        return _STATUS.pack(_STATUS_VERSION, 1, commands, 0, left, int(self._idle * 1000), int((now - self._born) * 1000))


def answer(fd: int, data: bytes) -> None:
    """Without waiting: whoever does not take it at once does not get it."""
    try:
        with socket.socket(fileno=fd) as asker:
            asker.setblocking(False)
            asker.send(data)
    except OSError:
        return
