"""What is printed for people: whole lines for programs, lines that fit for terminals."""

from __future__ import annotations

import os
from typing import Any

import pytest

from isandbox.cli import _doctor, _layout
from isandbox.cli._audit import row
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
    layers = "\n".join(_doctor._layers({f"layer_{number}": "enforced" for number in range(40)})).splitlines()
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
