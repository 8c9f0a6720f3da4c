"""The user's own terminal: its size, its raw mode, and that it is as it was afterwards."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import signal
import termios
import time
import tty
from typing import TYPE_CHECKING, Any

from isandbox.cli._host import terminal_type
from isandbox.cli._streams import STDERR, STDIN, STDOUT, OutputClosedError, write_all

if TYPE_CHECKING:
    from isandbox.records import TerminalSize

# What would have a terminal type by itself into the user's shell, keep the user from typing, or hide what the shell says, after the
# program that set it is gone. From xterm's ctlseqs, kitty's keyboard protocol and Windows Terminal's modes; a terminal skips those
# that it does not know. Linux' console takes 16 numbers at once.
_CALM = b"".join(
    (
        b"\x18\x1b\\",  # the end of a sequence, and of a string, in the middle of which the program has ended
        b"\x1b[=0u\x1b[?1047l\x1b[=0u",  # kitty's keys are those of a screen; 1049 would move the cursor where there was no other
        # mouse, focus, colour scheme and size reports; frozen drawing; Windows' keys; bracketed paste
        b"\x1b[?9;1000;1001;1002;1003;1004;1005;1006;1015;1016;2026;2031;2048;9001;2004l",
        b"\x1b[>4;0m\x1b[?1l\x1b>",  # xterm's keys, application keys
        b"\x1b[2;4;20l",  # a locked keyboard, inserting, two characters for Enter
        b"\x1b[?69l\x1b7\x1b[r\x1b8\x1b[?7h",  # margins, which move the cursor; lines that do not wrap
        b"\x1b[?25h\x0f\x1b(B\x1b[m",  # the cursor, line drawing characters, colours
    )
)
# Every terminal that answers at all answers this, and answers come in order.
_LAST_QUESTION = b"\x1b[c"
_LAST_ANSWER = re.compile(rb"\x1b\[\?[0-9;]*c")

_QUIET = 200  # milliseconds without a key, after some
_ANSWER = 1_000  # milliseconds until a terminal far away answers
_LONGEST_PASTE = 3.0  # seconds


def is_terminal(fd: int) -> bool:
    """False too for a descriptor that is closed."""
    try:
        return os.isatty(fd)
    except OSError:
        return False


def terminal_size() -> TerminalSize | None:
    """Of the first of our descriptors that is a terminal and knows its size."""
    from isandbox.records import TerminalSize

    for fd in (STDIN, STDOUT, STDERR):
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(fd)
            if size.lines and size.columns:
                return TerminalSize(rows=size.lines, columns=size.columns)
    return None


class RawTerminal:
    """The terminal at stdin. In raw mode every key is a byte, Ctrl-C too. For the main thread."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._changing: list[Any] | None = None

    def enter(self) -> None:
        """Raw mode, also again after a stop. The settings of the first time are those that `leave` restores.

        Raises `OSError` when stdin is no terminal or has hung up. From the background the kernel stops us here until
        somebody brings us to the foreground, as it does with every program that wants the terminal.
        """
        while True:
            try:
                before = termios.tcgetattr(STDIN) if self._before is None else self._before
                self._changing = before  # a signal may end us before it is known that they are changed
                tty.setraw(STDIN, termios.TCSADRAIN)
            except termios.error as error:
                self._changing = None
                if error.args[0] != errno.EINTR:
                    raise OSError(*error.args) from error
                # Stopped, and continued in the foreground: only now the settings are those that we are given.
            else:
                self._before = before
                return

    def leave(self, *, asked: bool = False) -> None:
        """As it was before `enter`, also from the background; nothing when that never came. What was typed for the command and
        not read is dropped: it is not for the shell that reads next. With ``asked`` the terminal may be answering a program that
        is gone: its answers are waited for, a second at most, and dropped as well.
        """
        before = self._changing if self._before is None else self._before
        if before is None:
            return
        # From the background, setting a terminal and reading from it would stop us.
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTTOU, signal.SIGTTIN)}
        try:
            with contextlib.suppress(OSError, OutputClosedError):
                if is_terminal(STDOUT) and terminal_type() not in (None, "dumb"):
                    write_all(STDOUT, _CALM + _LAST_QUESTION if asked else _CALM)
            with contextlib.suppress(OSError, termios.error):  # it has hung up
                _drop_typed(_ANSWER if asked else 0)
                termios.tcsetattr(STDIN, termios.TCSAFLUSH, before)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _drop_typed(quiet: int) -> None:
    """Read what is on its way in. Flushing alone takes what the terminal holds, and the kernel fills that again from what a paste
    has left behind it (Linux: 64 KiB of a pseudo-terminal): a program that ends in the middle of a paste would hand the rest to
    the user's shell.
    """
    waiting = select.poll()
    waiting.register(STDIN, select.POLLIN)
    end, seen = time.monotonic() + _LONGEST_PASTE, b""
    while waiting.poll(quiet) and time.monotonic() < end and (data := os.read(STDIN, 65_536)):
        seen = (seen + data)[-65_536:]
        if quiet != _ANSWER or _LAST_ANSWER.search(seen):
            quiet = _QUIET
