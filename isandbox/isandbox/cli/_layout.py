"""Lines that fit a terminal: how wide text is there, where it is cut, and tables. Pure but for the terminal's width."""

from __future__ import annotations

import os
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isandbox.cli._neutral import visible
from isandbox.cli._streams import STDOUT

_NARROWEST = 60  # below that an indented rest would be a column of single words
_NARROWEST_COLUMN = 8
_GAP = "  "
_AGES = ((86_400, "d"), (3_600, "h"), (60, "m"))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. ``right``: numbers. ``cut``: where the terminal is too narrow this column gives way."""

    title: str
    right: bool = False
    cut: bool = False


def fitted(line: str, indent: int) -> str:
    """The line, broken at the terminal's width, what follows below column ``indent``. Where stdout is no terminal, as it is: a
    program that looks for a word wants all of its line.
    """
    width = terminal_columns()
    if width is None or len(line) <= width:
        return line
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int | None = None) -> Iterator[str]:
    """The lines of a table: titles, then one line a row, two spaces between columns.

    Cells are made visible first, so that a name cannot act on the terminal or break the row; ``None`` is ``-``. With a ``width``
    (`terminal_columns`) the widest of the columns that may be cut are cut until the lines fit, to 8 columns each at the least.
    Without one nothing is cut.
    """
    cells = [[title.title for title in columns], *([_cell(value) for value in row] for row in rows)]
    widths = [max(display_width(row[at]) for row in cells) for at in range(len(columns))]
    if width is not None:
        _narrow(widths, [column.cut for column in columns], width)
    for row in cells:
        padded = (_pad(text, size, right=column.right) for text, size, column in zip(row, widths, columns, strict=True))
        yield _GAP.join(padded).rstrip(" ")


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else visible(str(value))


def _narrow(widths: list[int], may_cut: list[bool], width: int) -> None:
    """Takes one column at a time from the widest that may be cut."""
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while over > 0:
        size, at = max(((size, -at) for at, size in enumerate(widths) if may_cut[at]), default=(0, 0))
        if size <= _NARROWEST_COLUMN:
            return
        widths[-at] -= 1
        over -= 1


def _pad(text: str, width: int, *, right: bool) -> str:
    text = cut(text, width)
    space = " " * (width - display_width(text))
    return space + text if right else text + space


def display_width(text: str) -> int:
    """Columns of a terminal that printable text takes: two for a wide character, none for a combining one. Marks on one character
    count from the fourth on: there is no width at which a pile of them would end.
    """
    return len(text) if text.isascii() else sum(columns for _, columns in _measured(text))


def cut(text: str, width: int) -> str:
    """The text, or its beginning and ``…`` where it is wider than ``width`` columns."""
    if display_width(text) <= width:
        return text
    kept, used = [], 0
    for one, columns in _measured(text):
        used += columns
        if used > width - 1:
            break
        kept.append(one)
    return "".join(kept) + "…" if width > 0 else ""


def _measured(text: str) -> Iterator[tuple[str, int]]:
    marks = 0
    for one in text:
        columns = 2 if unicodedata.east_asian_width(one) in ("W", "F") else 1
        if unicodedata.category(one) in ("Mn", "Me", "Cf"):
            marks += 1
            columns = 0 if marks <= 3 else 1
        else:
            marks = 0
        yield one, columns


def age(seconds: float) -> str:
    """How long, in its largest unit: ``7s``, ``3m``, ``5h``, ``2d``. Less than nothing, which clocks that jump give, is ``0s``."""
    for unit, letter in _AGES:
        if seconds >= unit:
            return f"{int(seconds // unit)}{letter}"
    return f"{max(0, int(seconds))}s"


def terminal_columns() -> int | None:
    """Columns of the terminal that stdout is, at least 60; ``None`` where it is none or does not know."""
    try:
        columns = os.get_terminal_size(STDOUT).columns
    except OSError:
        return None
    return max(columns, _NARROWEST) if columns else None
