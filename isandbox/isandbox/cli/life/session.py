"""A command with a terminal of its own, at the user's terminal: keys go in, the screen comes out, sizes follow."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from isandbox.cli._streams import STDIN, STDOUT, OutputClosedError, read_stdin, write_all
from isandbox.cli.life.edge import SignalledError
from isandbox.cli.life.questions import Questions
from isandbox.cli.life.terminal import RawTerminal, is_terminal, terminal_size
from isandbox.errors import SandboxError

if TYPE_CHECKING:
    from isandbox.cli.life.keys import DetachKeys
    from isandbox.records import TerminalSize
    from isandbox.sync import IProcess

_GENEROUS = 5.0  # seconds for a thread that has nothing more to do
_LATEST = 10.0  # seconds after which a terminal has answered
_MOMENT = 1.0  # seconds for a program to draw; one that does not notice its size need not


class _Leave(BaseException):
    """Ends the session from within a signal handler; ``number`` of the signal, 0 for the detach keys. No `Exception`, so that
    nothing between the handler and `Session.run` takes it for its own.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Session:
    """The user's terminal in raw mode, connected with ``process``, which has a terminal of its own. For the main thread, once.

    Every key goes in, Ctrl-C and Ctrl-Z too, but for ``keys``, which let go of the command. The size follows the user's
    (SIGWINCH). SIGINT from elsewhere goes to the command; SIGTERM, SIGHUP, SIGQUIT and the terminal's end are the session's, but signals
    that were ignored when we started stay so (nohup). A stop by SIGTSTP gives the terminal back until SIGCONT. However it
    ends, the terminal is as it was.

    Signal handlers take no lock: what talks to the sandbox is done by a thread, and what ends the session is raised in the
    main thread.

    ``redraw``: the command is there already, and has drawn what this terminal does not show.
    """

    def __init__(self, process: IProcess, keys: DetachKeys, *, redraw: bool = False) -> None:
        self._process, self._keys, self._redraw = process, keys, redraw
        self._terminal = RawTerminal()
        self._requests: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._drawn, self._sized = threading.Event(), threading.Event()
        self._questions, self._asked = Questions(), -_LATEST
        self._leaving: int | None = None
        self._over = self._within_line = False
        self._main = threading.get_ident()

    def run(self) -> Literal["ended", "let go"]:
        """Until the command has ended, or the user lets go of it.

        Raises `SignalledError`, and `OutputClosedError` or `OSError` for a terminal or an output that is gone.
        """
        try:
            self._talk()
        except _Leave as leave:
            self._end_line()
            if leave.number:
                raise SignalledError(leave.number) from None
            return "let go"
        except SandboxError:
            self._end_line()
            raise
        return "ended"

    def _talk(self) -> None:
        with self._handlers(), self._threads() as start:
            try:
                self._terminal.enter()
                self._first_size()
                start()
                for _, chunk in self._process:
                    if self._questions.feed(chunk):
                        self._asked = time.monotonic()
                    _show(chunk)
                    self._within_line = not chunk.endswith(b"\n")
                    self._drawn.set()
            finally:
                self._over = True  # from here on a signal raises nothing

    def _end_line(self) -> None:
        """What is said next, by us or by the shell outside, is not glued to a prompt that stands inside."""
        if self._within_line and is_terminal(STDOUT):
            with contextlib.suppress(OSError, OutputClosedError):
                write_all(STDOUT, b"\n")

    @contextlib.contextmanager
    def _threads(self) -> Iterator[Callable[[], None]]:
        """Gives what starts them. They have ended before the terminal is given back: nothing of ours reads it then."""
        stopped, stop = os.pipe()
        typing = threading.Thread(target=self._type, args=(stopped,), name="isandbox-keys", daemon=True)
        serving = threading.Thread(target=self._serve, name="isandbox-requests", daemon=True)

        def start() -> None:
            typing.start()
            serving.start()

        try:
            yield start
        finally:
            try:
                os.close(stop)  # wakes who waits for the other end
                self._requests.put(None)
                self._drawn.set()
                self._sized.set()
                for thread in (typing, serving):
                    if thread.ident is not None:
                        thread.join(_GENEROUS)
                if not typing.is_alive():
                    os.close(stopped)
            finally:
                self._give_back()

    def _give_back(self) -> None:
        self._terminal.leave(asked=time.monotonic() - self._asked < _LATEST)

    def _type(self, stopped: int) -> None:
        self._sized.wait()  # what is typed is for the size that the user sees, not for the one of a moment
        waiting = select.poll()
        waiting.register(STDIN, select.POLLIN)
        waiting.register(stopped, select.POLLIN)
        read = True
        while not any(fd == stopped for fd, _ in waiting.poll()):
            if not (data := read_stdin()):
                self._leave(signal.SIGHUP)  # a raw terminal has no other end of input
                return
            typed, let_go = self._keys.feed(data)
            if let_go:
                self._leave(0)
                return
            if typed and read:
                try:
                    self._process.write_stdin(typed)
                except (SandboxError, BrokenPipeError):  # it has closed its terminal, or is gone: the keys that leave still do
                    read = False

    def _leave(self, number: int) -> None:
        self._leaving = number
        signal.pthread_kill(self._main, signal.SIGWINCH)  # ends whatever system call the main thread waits in

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            # A sandbox that is gone has nobody to tell, and the main thread reports that.
            with contextlib.suppress(SandboxError):
                request()

    def _first_size(self) -> None:
        if self._redraw and (size := terminal_size()) is not None:
            self._requests.put(lambda: self._have_it_drawn(size))
        self._resize()
        self._requests.put(self._sized.set)

    def _have_it_drawn(self, size: TerminalSize) -> None:
        """Shells and full-screen programs draw for a size that is another than they know; so they get one for a moment."""
        self._process.resize(size.rows + 1, size.columns)
        self._drawn.wait(_MOMENT)

    def _resize(self) -> None:
        if (size := terminal_size()) is not None:
            self._requests.put(lambda: self._process.resize(size.rows, size.columns))

    @contextlib.contextmanager
    def _handlers(self) -> Iterator[None]:
        before: dict[int, Any] = {}
        always = {signal.SIGWINCH: self._on_size, signal.SIGCONT: self._on_continue}
        unless_ignored = {
            signal.SIGTSTP: self._on_stop,
            signal.SIGINT: self._on_interrupt,
            signal.SIGTERM: self._on_end,
            signal.SIGHUP: self._on_end,
            signal.SIGQUIT: self._on_end,
        }
        try:
            for number, handler in {**always, **unless_ignored}.items():
                if number in always or signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, handler)
            yield
        finally:
            for restored, old in before.items():
                signal.signal(restored, old)

    def _on_size(self, _number: int, _frame: FrameType | None) -> None:
        if self._over:
            return
        if self._leaving is not None:
            self._end(self._leaving)
        self._resize()

    def _on_interrupt(self, number: int, _frame: FrameType | None) -> None:
        self._requests.put(lambda: self._process.signal(number))

    def _on_end(self, number: int, _frame: FrameType | None) -> None:
        if not self._over:
            self._end(number)

    def _end(self, number: int) -> NoReturn:
        self._over = True  # a second signal does not break off what the first one began
        raise _Leave(number)

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        self._give_back()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # here we stand until SIGCONT
        signal.signal(number, self._on_stop)
        self._on_continue(number, None)  # also where the kernel does not stop us: nobody could continue an orphan

    def _on_continue(self, _number: int, _frame: FrameType | None) -> None:
        if self._over:
            return
        try:
            self._terminal.enter()
        except OSError:  # it has hung up: the kernel tells that by SIGHUP and this signal
            self._end(signal.SIGHUP)
        self._resize()


def _show(chunk: bytes) -> None:
    try:
        write_all(STDOUT, chunk)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise SignalledError(signal.SIGHUP) from error  # the terminal is gone, and the signal that says so on its way
