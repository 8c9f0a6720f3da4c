"""The help of every command is its manual."""

from __future__ import annotations

import inspect
import subprocess
from typing import Any

import click
import pytest
from click.testing import CliRunner

from isandbox.cli import ELSEWHERE, SECTIONS, main

ROOT = click.Context(main, info_name="isandbox")
COMMANDS = main.list_commands(ROOT)


@pytest.fixture(params=COMMANDS)
def command(request: Any) -> click.Command:
    found = main.get_command(ROOT, request.param)
    assert found is not None
    return found


def paragraphs(command: click.Command) -> list[str]:
    return inspect.cleandoc(command.help or "").split("\n\n")


def block(command: click.Command, title: str) -> list[str]:
    """The lines below a title, which click leaves as they are."""
    blocks = [part for part in paragraphs(command) if part.startswith(f"\b\n{title}:")]
    assert len(blocks) == 1, f"{command.name}: {title}"
    return blocks[0].splitlines()[2:]


def test_the_list_shows_every_command_in_its_section(isandbox: Any) -> None:
    """`isandbox --help` has each command once, below the title of its section, with its line."""
    lines = isandbox("--help", env={"COLUMNS": "200"}).stdout.decode().splitlines()
    for title, entries in SECTIONS.items():
        at = lines.index(f"{title}:")
        shown = [line.split(maxsplit=1) for line in lines[at + 1 : at + 1 + len(entries)]]
        assert shown == [[name, entry.short] for name, entry in entries.items()]
    assert len(COMMANDS) == len(set(COMMANDS))


def test_every_command_has_exit_codes(command: click.Command) -> None:
    """What 0 or the command's own code, wrong usage and a failure of isandbox mean is said, each on a line."""
    codes = [line.split()[0] for line in block(command, "Exit code")]
    assert {"2", "125"} <= set(codes)
    assert codes[0] in {"0", "the"}
    assert [int(code) for code in codes if code.isdigit()] == sorted(int(code) for code in codes if code.isdigit())


def test_every_command_has_examples(command: click.Command) -> None:
    """At least two, and each calls this command."""
    examples = block(command, "Examples")
    assert len(examples) >= 2
    assert all(f"isandbox {command.name}" in line for line in examples)


def test_examples_are_calls_that_the_command_takes(command: click.Command) -> None:
    """No example has an option that is not there."""
    known = {option for param in command.get_params(ROOT) for option in param.opts}
    for line in block(command, "Examples"):
        words = line.partition(f"isandbox {command.name}")[2].partition(" -- ")[0].partition("|")[0].partition("$(")[0].split()
        assert [word for word in words if word.startswith("-") and word not in {*known, "-"}] == []


def test_every_option_has_a_meaning(command: click.Command) -> None:
    """Each option says what it is for; one that takes a value names it."""
    options = [param for param in command.get_params(ROOT) if isinstance(param, click.Option)]
    assert [one.name for one in options if not one.help] == []
    assert [one.name for one in options if not (one.is_flag or one.metavar or isinstance(one.type, click.Choice))] == []


def test_lines_that_stay_as_they_are_fit(command: click.Command) -> None:
    """A block that click does not break fits a terminal of 80 columns, and so does the line in the list."""
    blocks = [part for part in paragraphs(command) if part.startswith("\b")]
    assert max(len(line) for part in blocks for line in part.splitlines()) <= 78
    assert len(command.short_help or "") <= 66


def test_a_command_is_imported_when_it_is_called() -> None:
    """Each command comes from a module of its own, whose name the table has."""
    for entries in SECTIONS.values():
        for name in entries:
            found = main.get_command(ROOT, name)
            assert found is not None
            assert found.name == name
    assert main.get_command(ROOT, "no-such-command") is None


@pytest.mark.parametrize("arguments", [["--help"], ["exec", "--help"], ["--version"]])
def test_help_that_cannot_be_written(program: str, arguments: list[str]) -> None:
    """On a full disk it is one line and 125, as with every other output."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([program, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (125, b"isandbox: standard output: No space left on device\n")


@pytest.mark.parametrize(
    ("word", "meant"), [("rm", "kill"), ("list", "ps"), ("attach", "shell ID --attach N"), ("creat", "create"), ("zzz", None)]
)
def test_names_that_are_none(word: str, meant: str | None) -> None:
    """What other tools call it, and what is near, is told with the name that it has here; nothing is guessed beyond."""
    done = CliRunner().invoke(main, [word])
    assert done.exit_code == 2
    assert f"No such command {word!r}" in done.output
    assert ("did you mean" in done.output) == (meant is not None)
    assert meant is None or f"did you mean {meant}?" in done.output


def test_names_of_elsewhere_lead_somewhere() -> None:
    """Each name that other tools have is told with a command that there is."""
    assert not ELSEWHERE.keys() & set(COMMANDS)
    assert {meant.split()[0] for meant in ELSEWHERE.values()} <= set(COMMANDS)
