"""Pipes of background children that outlive the call that started them: read and thrown away, so that nobody blocks.

One daemon thread for the whole process, started when it is first needed.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time

_CHUNK = 65_536
# Between two rounds: a child that never stops writing costs the host a little, not half a core.
_PAUSE = 0.01


class _Drain:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._selector: selectors.BaseSelector | None = None
        self._wake = -1
        self._new: list[int] = []

    def take(self, fds: list[int]) -> None:
        """Own these descriptors from now on: read them to their end, then close them."""
        with self._lock:
            if self._selector is None:
                self._start()
            self._new += fds
        os.write(self._wake, b"\0")

    def forget(self) -> None:
        """In a forked child there is no thread; the descriptors are the parent's business."""
        if self._selector is not None:
            for key in list(self._selector.get_map().values()):
                os.close(key.fd)
            self._selector.close()
            os.close(self._wake)
        self.__init__()  # type: ignore[misc]

    def _start(self) -> None:
        wake, self._wake = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(wake, selectors.EVENT_READ, "wake")
        threading.Thread(target=self._run, args=(self._selector, wake), name="isandbox-drain", daemon=True).start()

    def _run(self, selector: selectors.BaseSelector, wake: int) -> None:
        while True:
            time.sleep(_PAUSE)
            for key, _ in selector.select():
                try:
                    data = os.read(key.fd, _CHUNK)
                except BlockingIOError:  # the command has read its own output
                    continue
                if key.fd == wake:
                    with self._lock:
                        arrived, self._new = self._new, []
                    for fd in arrived:
                        selector.register(fd, selectors.EVENT_READ)
                elif not data:
                    selector.unregister(key.fd)
                    with contextlib.suppress(OSError):
                        os.close(key.fd)


_drain = _Drain()
drain = _drain.take

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drain.forget)
