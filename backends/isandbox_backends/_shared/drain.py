"""Pipes of background children that outlive the call that started them: read and thrown away, so that nobody blocks.

One daemon thread for the whole process, started when it is first needed.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections.abc import Iterable

from isandbox_backends._shared.host_process import log

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
        """Own these descriptors from now on: read them to their end, then close them. Never raises: what cannot be read is
        closed, and whoever writes to it gets SIGPIPE.
        """
        with self._lock:
            try:
                if self._selector is None:
                    self._start()
                self._new += fds
                os.write(self._wake, b"\0")
            except (OSError, RuntimeError) as error:  # no descriptors, no threads, or somebody has closed what was ours
                log.warning("output of background processes is not read any more: %s", error)
                self._new = [fd for fd in self._new if fd not in fds]
                _close(fds)

    def forget(self) -> None:
        """In a forked child there is no thread; the descriptors are the parent's business."""
        if self._selector is not None:
            _close([key.fd for key in list(self._selector.get_map().values())])
            _close([*self._new, self._wake])
            self._selector.close()
        self.__init__()  # type: ignore[misc]

    def _start(self) -> None:
        wake, end = os.pipe()
        selector = None
        try:
            selector = selectors.DefaultSelector()
            selector.register(wake, selectors.EVENT_READ)
            threading.Thread(target=self._run, args=(selector, wake), name="isandbox-drain", daemon=True).start()
        except BaseException:
            if selector is not None:
                selector.close()
            _close([wake, end])
            raise
        self._selector, self._wake = selector, end

    def _run(self, selector: selectors.BaseSelector, wake: int) -> None:
        while True:
            time.sleep(_PAUSE)
            for key, _ in selector.select():
                try:
                    data = os.read(key.fd, _CHUNK)
                except BlockingIOError:  # the command has read its own output
                    continue
                except OSError:  # somebody has closed it: not ours any more
                    data = b""
                if key.fd == wake:
                    self._begin(selector)
                elif not data:
                    selector.unregister(key.fd)
                    _close([key.fd])

    def _begin(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            arrived, self._new = self._new, []
        for fd in arrived:
            try:
                selector.register(fd, selectors.EVENT_READ)
            except (OSError, ValueError, KeyError):  # the user's share of watches is used up, or it is closed
                _close([fd])


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


_drain = _Drain()
drain = _drain.take

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drain.forget)
