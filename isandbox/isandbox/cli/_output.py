"""What a command of isandbox prints: a table for a person, one JSON object for a program, one line when it fails."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from isandbox.cli._neutral import Sanitiser, visible
from isandbox.cli._report import error_object, error_text
from isandbox.cli._streams import FAILED, STDERR, STDOUT, say, write_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from isandbox.cli._layout import Column
    from isandbox.sync import IProcess


class Outlet:
    """One of our descriptors, for the output of a command inside.

    Bytes stay exact where a program reads them. On a terminal they go through a `Sanitiser`, unless ``raw``: then whatever the
    command writes, the terminal does.
    """

    def __init__(self, fd: int, *, raw: bool = False) -> None:
        self._fd = fd
        self._sanitiser = None if raw or not os.isatty(fd) else Sanitiser()

    def write(self, data: bytes) -> None:
        """Raises `OutputClosedError` when nobody reads it any more."""
        write_all(self._fd, data if self._sanitiser is None else self._sanitiser.feed(data))

    def end(self) -> None:
        """Before anything else is written there: what was held back, and the end of a colour."""
        if self._sanitiser is not None:
            write_all(self._fd, self._sanitiser.end())


def say_object(value: object, code: int = 0) -> int:
    """One line of JSON on stdout; ASCII only, so that no text in it acts on a terminal. The exit code, as `say` has it."""
    return say(json.dumps(value), code)


def say_table(columns: Sequence[Column], rows: Sequence[Sequence[object]], code: int = 0) -> int:
    """The table, cut to the terminal's width when stdout is one. The exit code, as `say` has it."""
    from isandbox.cli._layout import table, terminal_columns

    return say("\n".join(table(columns, rows, terminal_columns())), code)


def say_failure(error: Exception, *, as_json: bool, code: int = FAILED) -> int:
    """One line on stderr, or ``{"error": …}`` on stdout; never a traceback. The exit code, as `say` has it."""
    if as_json:
        return say_object(error_object(error), code)
    return say(failure_line(error), code, STDERR)


def failure_line(error: Exception) -> str:
    return f"isandbox: {visible(' '.join(error_text(error).split()))}"


def outlets(*, raw: bool = False) -> dict[str, Outlet]:
    """By the name of the stream."""
    return {"stdout": Outlet(STDOUT, raw=raw), "stderr": Outlet(STDERR, raw=raw)}


def stream(process: IProcess, into: Mapping[str, Outlet]) -> None:
    """Every byte, to the command's end."""
    try:
        for name, chunk in process:
            into[name].write(chunk)
    finally:  # whatever is said next must not be in the command's colours
        for outlet in into.values():
            outlet.end()
