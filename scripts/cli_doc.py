"""Write docs/cli.md from the help of the commands and their schemas; with --check only say whether it is up to date."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from isandbox.cli import SECTIONS, main
from isandbox.cli.schemas import COMMANDS, load_schema

TARGET = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEAD = """# Command line

The manual of `isandbox`, from the help that each command prints with `--help`. Written by `python scripts/cli_doc.py`.

A command prints what a person reads; with `--json` it prints one object, whose keys stand here and which
`isandbox schema COMMAND` prints as JSON Schema. On a terminal, what code inside chose (names, messages, the output of a command)
is shown and not acted upon: a control character stands there as an escape, `\\x1b` for ESC.
"""
RAW = "\b\n"


def document() -> str:
    root = click.Context(main, info_name="isandbox")
    parts = [HEAD, *_contents()]
    for name in main.list_commands(root):
        command = main.get_command(root, name)
        if command is not None and not command.hidden:
            parts += _command(name, command, root)
    return "\n".join(parts)


def _contents() -> Iterator[str]:
    yield "| | command | |"
    yield "|---|---|---|"
    for title, entries in SECTIONS.items():
        for at, (name, entry) in enumerate(entries.items()):
            yield f"| {title if at == 0 else ''} | [`isandbox {name}`](#isandbox-{name}) | {entry.short} |"
    yield ""


def _command(name: str, command: click.Command, root: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=root)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## isandbox {name}\n"
    yield f"```text\nisandbox {name} {usage}\n```\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield from _paragraph(paragraph)
    yield "| option | |"
    yield "|---|---|"
    for param in command.get_params(context):
        if isinstance(param, click.Option) and not param.hidden:
            yield f"| `{_spelled(param)}` | {_cell(param.help or '')} |"
    yield ""
    if name in COMMANDS:
        yield from _schema(name)


def _paragraph(text: str) -> Iterator[str]:
    """Lines that stay as they are become a block, with their title, if they have one, above it."""
    if not text.startswith(RAW):
        yield text + "\n"
        return
    lines = text.removeprefix(RAW).splitlines()
    if lines[0].endswith(":"):
        yield f"**{lines.pop(0)}**\n"
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    yield "```text\n" + "\n".join(line[indent:] for line in lines) + "\n```\n"


def _spelled(option: click.Option) -> str:
    if option.is_flag:
        value = ""
    elif isinstance(option.type, click.Choice):
        value = " " + "|".join(map(str, option.type.choices))
    else:
        value = f" {option.metavar or option.type.name.upper()}"
    return _cell(", ".join(option.opts) + value)


def _schema(command: str) -> Iterator[str]:
    schema = load_schema(command)
    yield f"**`{schema['title']}`**: {schema['description']}\n"
    forms = schema["oneOf"][:-1]  # the last is a failure
    for form in forms:
        if len(forms) > 1:
            yield f"{form['description']}\n"
        yield "| key | type | |"
        yield "|---|---|---|"
        yield from _fields(form, "")
        yield ""


def _fields(schema: dict[str, Any], above: str) -> Iterator[str]:
    for name, field in schema["properties"].items():
        inner, kind = field, _kind(field)
        path = f"{above}{name}"
        if "items" in field:
            inner, path = field["items"], f"{path}[]"
        elif isinstance(field.get("additionalProperties"), dict):
            inner, path = field["additionalProperties"], f"{path}.*"
        yield f"| `{above}{name}` | {kind} | {_cell(field['description'])} |"
        if "properties" in inner:
            yield from _fields(inner, f"{path}.")


def _kind(field: dict[str, Any]) -> str:
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    words = [f'"{word}"' for word in field.get("enum", []) if word is not None]
    return ", ".join([*(kind for kind in kinds if not words or kind != "string"), *words])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main_() -> int:
    wanted = document()
    if "--check" in sys.argv:
        if TARGET.exists() and TARGET.read_text() == wanted:
            return 0
        print("docs/cli.md is out of date; run python scripts/cli_doc.py")
        return 1
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main_())
