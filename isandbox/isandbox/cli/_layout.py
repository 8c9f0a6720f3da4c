"""Lines that fit a terminal."""

from __future__ import annotations

import os
import textwrap

from isandbox.cli._streams import STDOUT

_NARROWEST = 60  # below that an indented rest would be a column of single words


def fitted(line: str, indent: int) -> str:
    """The line, broken at the terminal's width, what follows below column ``indent``. Where stdout is no terminal, as it is: a
    program that looks for a word wants all of its line.
    """
    width = _columns()
    if width is None or len(line) <= width:
        return line
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _columns() -> int | None:
    try:
        columns = os.get_terminal_size(STDOUT).columns
    except OSError:
        return None
    return max(columns, _NARROWEST) if columns else None
