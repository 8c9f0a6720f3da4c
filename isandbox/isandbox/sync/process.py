# Made by scripts/unasync.py from isandbox/process.py: change that one.
"""A running command."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NoReturn, Self

from isandbox.errors import UnsupportedError
from isandbox.records import Offsets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from isandbox.records import ExecResult, Stream


class IProcess(ABC):
    """A handle on one command, made by `ISandbox.spawn` and `ISandbox.start`.

    Iterating yields ``(stream, chunk)`` pairs as they arrive, with a bounded buffer: a slow reader slows the command, it
    does not fill memory. `wait` reads whatever is not iterated. As a context manager it ends the command on leaving when it
    still runs; a kept command (``background=True``) goes on, and only the handle is let go. Handles do not pickle.
    """

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """The command's pid as the sandbox sees it; ``None`` before it is known and when it did not start."""

    @property
    def id(self) -> int | None:
        """What `ISandbox.attach` takes to reach this command again; ``None`` for one that is not kept or did not start."""
        return None

    @property
    def offsets(self) -> Offsets:
        """Where the output goes on after what this handle has handed over: attaching with ``since=`` that misses nothing.

        Bytes that were dropped because this handle was slower than the sandbox keeps are counted when the command has ended,
        so that until then some may come twice.
        """
        return Offsets()

    def detach(self) -> None:
        """Let go of a kept command, which goes on; afterwards `wait` raises `SandboxClosedError`, and nothing can be sent to it
        by this handle. Idempotent, and nothing when the command has ended. `UnsupportedError` for a command that is not kept: it
        does not outlive its handle.
        """
        raise UnsupportedError("detach: this command is not kept; start it with background=True", option="detach")

    @abstractmethod
    def wait(self) -> ExecResult:
        """Read to the end and return the result; the same one every time.

        Raises `SandboxLostError` when the sandbox is gone before the command's end was reported. Cancelling the wait leaves
        the command alone.
        """

    @abstractmethod
    def kill(self) -> None:
        """End every process of the command, also those that left its session; fault ``cancelled``. Idempotent.

        Nothing happens when the command itself has ended: background children that it left live until the sandbox closes.
        """

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send a signal (1 to 64, else `ConfigurationError`) to the command's process group.

        Nothing happens when the command has ended.
        """

    @abstractmethod
    def write_stdin(self, data: bytes) -> None:
        """Write all of ``data``; waits while the pipe is full. Raises `BrokenPipeError` when nothing reads it any more."""

    @abstractmethod
    def close_stdin(self) -> None:
        """EOF for the command. Idempotent.

        In a terminal it is the key for that (^D), typed after all that was written before; in the middle of a line, twice. A
        program that has switched the terminal to raw input reads a byte 4.
        """

    @abstractmethod
    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the command's terminal; `UnsupportedError` when it has none."""

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[Stream, bytes]]:
        """Output as it arrives, until the command's end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.id is None:
            self.kill()
        else:
            self.detach()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is a live handle and cannot be pickled")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} pid={self.pid}>"
