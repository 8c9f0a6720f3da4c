"""What every command prints with: the object, the table, the failure, and a command's output."""

from __future__ import annotations

import json
import os
import pty

import pytest

from isandbox import ConfigurationError
from isandbox.cli import _output
from isandbox.cli._layout import Column
from isandbox.cli._output import Outlet, failure_line, say_failure, say_object, say_table

ACTING = b"\x1b]0;title\x07"


def test_a_program_gets_one_line_of_ascii(capfd: pytest.CaptureFixture[str]) -> None:
    """An object is one line, in which no text can act on a terminal."""
    assert say_object({"name": "日\x1b]0;x\x9b"}, 3) == 3
    said = capfd.readouterr().out
    assert said == '{"name": "\\u65e5\\u001b]0;x\\u009b"}\n'
    assert said.isascii()


def test_a_failure_has_one_line_or_one_object(capfd: pytest.CaptureFixture[str]) -> None:
    """What goes wrong is one line on stderr, or the object of every schema on stdout, and 125."""
    error = ConfigurationError("no \x1b[2J such\nthing")
    assert say_failure(error, as_json=False) == 125
    assert capfd.readouterr() == ("", "isandbox: no \\x1b[2J such thing\n")
    assert say_failure(error, as_json=True) == 125
    said = capfd.readouterr()
    assert (json.loads(said.out)["error"]["code"], said.err) == (error.code, "")
    assert failure_line(OSError(2, "gone", "a\x9bb")) == r"isandbox: 'a\x9bb': gone"


def test_a_table_is_whole_for_a_program(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stdout is no terminal nothing of a table is cut; at one of 60 columns it is."""
    rows = [["isb-1", "x" * 90]]
    assert say_table([Column("ID"), Column("COMMAND", cut=True)], rows, 0) == 0
    assert "x" * 90 in capfd.readouterr().out
    monkeypatch.setattr("isandbox.cli._layout.os.get_terminal_size", lambda fd: os.terminal_size((60, 24)))
    say_table([Column("ID"), Column("COMMAND", cut=True)], rows, 0)
    assert max(map(len, capfd.readouterr().out.splitlines())) == 60


@pytest.mark.parametrize(
    ("terminal", "raw", "seen"), [(False, False, ACTING), (True, False, rb"\x1b]0;title\x07"), (True, True, ACTING)]
)
def test_the_output_of_a_command(terminal: bool, raw: bool, seen: bytes) -> None:
    """Exact in a pipe, harmless at a terminal, exact there when it is wanted raw."""
    reader, writer = pty.openpty() if terminal else os.pipe()
    try:
        outlet = Outlet(writer, raw=raw)
        outlet.write(ACTING[:3])
        outlet.write(ACTING[3:])
        outlet.end()
        found = b""
        while len(found) < len(seen):
            found += os.read(reader, 4096)
        assert found == seen
    finally:
        os.close(reader)
        os.close(writer)


def test_one_outlet_for_each_stream() -> None:
    """stdout and stderr each have their own: what one holds back does not wait for the other."""
    assert set(_output.outlets()) == {"stdout", "stderr"}
    assert _output.outlets()["stdout"] is not _output.outlets()["stderr"]
