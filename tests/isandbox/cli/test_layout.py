"""What is printed for people: whole lines for programs, lines that fit for terminals."""

from __future__ import annotations

import os
from typing import Any

import pytest

from isandbox.cli import _layout
from isandbox.cli._audit import row
from isandbox.cli._layout import Column, age, cut, display_width, table
from isandbox.cli.doctor.show import layer_lines
from isandbox.cli.life.listing import say_lines
from isandbox.testing.containment import Finding

LONG = Finding("A04-inherited", "a title of words " * 6, "filesystem", "BLOCKED", "a mechanism, " * 8)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``columns(80)``: stdout is a terminal of that width."""

    def set_columns(number: int) -> None:
        monkeypatch.setattr(_layout.os, "get_terminal_size", lambda fd: os.terminal_size((number, 24)))

    return set_columns


@pytest.mark.parametrize("width", [80, 100, 200])
def test_lines_fit_a_terminal(columns: Any, width: int) -> None:
    """No line of the audit or the doctor is wider than the terminal; what follows stands under its column."""
    columns(width)
    audit = row(LONG).splitlines()
    layers = "\n".join(layer_lines({f"layer_{number}": "enforced" for number in range(40)})).splitlines()
    assert max(map(len, [*audit, *layers])) <= width
    assert {line[:28].strip() for line in audit[1:]} == {line[:14].strip() for line in layers[1:]} == {""}
    assert " ".join(" ".join(audit).split()) == " ".join(f"A04-inherited BLOCKED {LONG.title}: {LONG.mechanism}".split())


def test_a_terminal_that_is_very_narrow_or_does_not_know(columns: Any) -> None:
    """Below 60 columns lines are not broken further, and a width of 0 is none."""
    columns(10)
    assert 40 < max(map(len, row(LONG).splitlines())) <= 60
    columns(0)
    assert "\n" not in row(LONG)


def test_a_line_stays_whole_for_a_program(capfd: pytest.CaptureFixture[str]) -> None:
    """Where stdout is no terminal each finding is one line, and the outcome begins in one column for every id."""
    assert "\n" not in row(LONG)
    assert row(LONG).index("BLOCKED") == row(Finding("A01", "t", "filesystem", "BLOCKED", "m")).index("BLOCKED") == 15


COLUMNS = [Column("ID"), Column("COMMAND", cut=True), Column("LABELS", cut=True), Column("SIZE", right=True)]


def test_a_table_stands_in_columns() -> None:
    """Titles and cells begin in one column, numbers end in one, nothing is - and no line ends with spaces."""
    lines = list(table(COLUMNS[:2] + COLUMNS[3:], [["a", "sleep 5", 7], ["bcd", None, 1234]]))
    assert lines == ["ID   COMMAND  SIZE", "a    sleep 5     7", "bcd  -        1234"]
    assert list(table(COLUMNS[:2], [["a", ""]])) == ["ID  COMMAND", "a   -"]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_table_fits_the_terminal(width: int) -> None:
    """The widest of the columns that may be cut gives way, and only as far as it must; an id is never cut."""
    rows = [["isb-" + "0" * 20, "x" * 90, "y" * 12, 5], ["short", "日本語" * 30, "", 123456]]
    lines = list(table(COLUMNS, rows, width))
    assert max(map(display_width, lines)) == width
    assert all(row[0] in line for row, line in zip(rows, lines[1:], strict=True))
    assert "y" * 12 in lines[1]
    assert list(table(COLUMNS, [["a", "b", "c", 1]], width)) == list(table(COLUMNS, [["a", "b", "c", 1]]))


def test_a_cell_cannot_break_out_of_its_row() -> None:
    """Line ends, escape sequences and reordering in a cell are shown, so that a name is one cell of one row."""
    (_, line) = table([Column("NAME"), Column("NEXT")], [["a\nb\x1b[2J\u202e\udc9b", "z"]])
    assert line == r"a\nb\x1b[2J\u202e\x9b  z"


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("日本", 4), ("e\u0301", 1), ("ｱ", 1), ("\uff21", 2), ("🙂", 2), ("", 0), ("x" + "\u0301" * 10, 8)],
)
def test_the_width_of_text(text: str, width: int) -> None:
    """Wide characters take two columns, marks none; a pile of marks ends to be free."""
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("ab", 1, "…"),
        ("a", 0, ""),
    ],
)
def test_text_is_cut_to_a_width(text: str, width: int, shown: str) -> None:
    """What does not fit ends with an ellipsis within the width; half a wide character is never shown."""
    assert cut(text, width) == shown
    assert display_width(cut(text, width)) <= width


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86400, "1d"), (9e6, "104d")],
)
def test_ages(seconds: float, shown: str) -> None:
    """An age is told in its largest whole unit."""
    assert age(seconds) == shown


def test_ids_of_somebody_elses_backend(capfd: Any) -> None:
    """A list of ids alone is made visible like a table: what a backend calls its sandboxes does not act on a terminal."""
    assert say_lines(["other-1", "other-\x1b]0;title\x07"]) == 0
    assert capfd.readouterr().out == "other-1\nother-\\x1b]0;title\\x07\n"
