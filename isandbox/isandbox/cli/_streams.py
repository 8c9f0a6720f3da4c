"""The user's three descriptors: kept on this side, only bytes go to and from the sandbox."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from isandbox.errors import SandboxError

if TYPE_CHECKING:
    from isandbox.sync import IProcess

STDIN, STDOUT, STDERR = 0, 1, 2
_NAMES = {STDOUT: "standard output", STDERR: "standard error"}
FAILED = 125
OUTPUT_CLOSED = 141  # 128 + SIGPIPE, as a program has that the signal ends
_CHUNK = 65_536


class OutputClosedError(Exception):
    """Nobody reads our stdout or stderr any more."""


def hold_standard_descriptors() -> None:
    """Open /dev/null where 0, 1 or 2 is closed: else the next file or socket would become the command's output."""
    for fd in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one


def write_all(fd: int, data: bytes) -> None:
    """Every byte, as it is. Waits where the descriptor does not; `OutputClosedError` when nobody reads it any more.

    Any other failure is an `OSError` that says which of our outputs it was.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # the terminal or pipe is shared with a program that made it non-blocking
            select.select([], [fd], [])
        except BrokenPipeError as error:
            raise OutputClosedError from error
        except OSError as error:
            raise OSError(error.errno, f"{_NAMES.get(fd, 'output')}: {error.strerror}") from error


def say(text: str, code: int, fd: int = STDOUT) -> int:
    """Write a line. ``code``; `OUTPUT_CLOSED` when nobody reads it, `FAILED` when it cannot be written, and stderr says why."""
    try:
        write_all(fd, f"{text}\n".encode("utf-8", "surrogateescape"))
    except OutputClosedError:
        return OUTPUT_CLOSED
    except OSError as error:  # the disk is full, or the terminal has hung up: then nobody hears this either
        with contextlib.suppress(OSError, OutputClosedError):
            write_all(STDERR, f"isandbox: {error.strerror}\n".encode())
        return FAILED
    return code


def give_up_stdout(error: OSError) -> None:
    """Say why nothing can be written there; what Python still holds for it is dropped, where it would complain at its end."""
    hole = os.open(os.devnull, os.O_WRONLY)
    os.dup2(hole, STDOUT)
    os.close(hole)
    with contextlib.suppress(OSError, OutputClosedError):
        write_all(STDERR, f"isandbox: {_NAMES[STDOUT]}: {error.strerror}\n".encode())


def feed_stdin(process: IProcess, *, end: bool = True) -> None:
    """Copy our stdin to the command in a daemon thread: it may wait for a key that nobody will press. ``end``: its end too."""
    threading.Thread(target=_feed, args=(process, end), name="isandbox-stdin", daemon=True).start()


def _feed(process: IProcess, end: bool) -> None:
    # A command that does not read its input, has ended, or is gone needs no more of it.
    with contextlib.suppress(SandboxError, BrokenPipeError):
        while data := read_stdin():
            process.write_stdin(data)
    if end:
        with contextlib.suppress(SandboxError):
            process.close_stdin()


def read_stdin() -> bytes:
    """What there is; waits for it. Empty at the end, also when a terminal has hung up."""
    while True:
        try:
            return os.read(STDIN, _CHUNK)
        except BlockingIOError:
            select.select([STDIN], [], [])
        except OSError:  # a directory, or a terminal that has hung up: the end of the input
            return b""


@contextlib.contextmanager
def terminal_restored() -> Iterator[None]:
    """Leave the terminal as it was found."""
    import termios  # where there is none, doctor still has to say what runs

    try:
        before = termios.tcgetattr(STDIN)
    except (OSError, termios.error):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):
            if termios.tcgetattr(STDIN) != before:
                # From the background, setting a terminal stops the program that does it.
                handler = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
                termios.tcsetattr(STDIN, termios.TCSADRAIN, before)
                signal.signal(signal.SIGTTOU, handler)
