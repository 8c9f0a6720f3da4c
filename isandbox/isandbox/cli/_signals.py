"""Signals of the user, passed on to the command."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from isandbox.errors import SandboxError

if TYPE_CHECKING:
    from isandbox.sync import IProcess

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """While entered, SIGINT, SIGTERM and SIGHUP belong to the command; those that were ignored stay ignored (nohup).

    Before `attach` there is no command yet: the program ends with 128 + n, through `SystemExit`, so that what was begun is
    undone. Afterwards a signal is passed on; the second SIGINT kills the command, a third one ends isandbox itself.

    With ``size`` the command has a terminal, whose size follows that of ours. ``only`` names those that are passed on, where
    others keep their meaning for isandbox.

    The handler only puts into a queue: a thread talks to the sandbox, so that no lock is taken in a handler.
    """

    def __init__(self, *, size: bool = False, only: tuple[int, ...] = _FORWARDED) -> None:
        self._numbers = (*only, signal.SIGWINCH) if size else only
        self._queue: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._attached = False
        self._interrupts = 0
        self._before: dict[int, Any] = {}

    def attach(self, process: IProcess) -> None:
        threading.Thread(target=self._forward, args=(process,), name="isandbox-signals", daemon=True).start()
        self._attached = True

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self._attached:
            if number == signal.SIGWINCH:
                return
            raise SystemExit(128 + number)
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts == 2:
                # Should even the kill be of no avail, say because our reader is stuck, the next one is final.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                number = signal.SIGKILL
        self._queue.put(number)

    def _forward(self, process: IProcess) -> None:
        while number := self._queue.get():
            # A sandbox that is gone has nobody to tell, and the main thread reports that.
            with contextlib.suppress(SandboxError):
                if number == signal.SIGKILL:
                    process.kill()
                elif number == signal.SIGWINCH:
                    _resize(process)
                else:
                    process.signal(number)

    def __enter__(self) -> Self:
        for number in self._numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._queue.put(0)


def _resize(process: IProcess) -> None:
    from isandbox.cli.life.terminal import terminal_size

    if (size := terminal_size()) is not None:
        process.resize(size.rows, size.columns)
