"""The schema of each command holds what the command prints, and nothing of it is left unsaid."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from isandbox.cli import main
from isandbox.cli._audit import as_object
from isandbox.cli.schemas import COMMANDS, load_schema, schema_name
from isandbox.testing.containment import Finding


@pytest.mark.parametrize("command", COMMANDS)
def test_schemas_are_well_formed(command: str, isandbox: Any) -> None:
    """Each is a schema of the draft that it names, is printed as it is, and its name has a version."""
    printed = json.loads(isandbox("schema", command).stdout)
    Draft202012Validator.check_schema(printed)
    assert printed == load_schema(command)
    assert schema_name(command) == f"isandbox.{command}/1"


def test_every_command_with_json_has_one(isandbox: Any) -> None:
    """The commands with --json are those with a schema, and each one's help names it."""
    context = main.make_context("isandbox", ["run"], resilient_parsing=True)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    assert [name for name, one in sorted(commands.items()) if any("--json" in param.opts for param in one.params)] == [
        *COMMANDS
    ]
    assert isandbox("schema").stdout.decode().split() == [schema_name(command) for command in COMMANDS]
    for command in COMMANDS:
        assert f"{schema_name(command)} (isandbox schema {command})" in " ".join(commands[command].help.split())


def test_every_field_has_a_meaning() -> None:
    """No property stands in a schema without a description."""

    def bare(schema: Any, name: str) -> list[str]:
        if isinstance(schema, list):
            return [found for one in schema for found in bare(one, name)]
        if not isinstance(schema, dict):
            return []
        fields = {**schema.get("properties", {})}
        own = [f"{name}.{key}" for key, value in fields.items() if not value.get("description")]
        return own + [found for key, value in schema.items() for found in bare(value, f"{name}.{key}")]

    assert [found for command in COMMANDS for found in bare(load_schema(command), command)] == []


def test_run(local: Any, held: Any) -> None:
    """What `isandbox run` prints of a command, of one that does not start, and of its own failure."""
    for arguments in (["sh", "-c", "echo out; exit 3"], ["no-such-program"]):
        held("run", json.loads(local("--json", "--", *arguments).stdout))
    held("run", json.loads(local("--json", "--memory", "5MB", "--", "true").stdout))


def test_audit(held: Any) -> None:
    """What `isandbox audit` prints of findings, with figures and without."""
    found = [Finding("A01", "t", "files", "LEAK", "m", "d", {"calls": 3}), Finding("A02", "t", "files", "BLOCKED", "m")]
    held("audit", json.loads(json.dumps(as_object("local", found))))


def test_doctor(isandbox: Any, held: Any) -> None:
    """What `isandbox doctor` prints of this machine."""
    held("doctor", json.loads(isandbox("doctor", "--json").stdout))


def test_an_unknown_key_is_seen(local: Any, held: Any) -> None:
    """The control of these tests: one key more, or one less, is found."""
    printed = json.loads(local("--json", "--", "true").stdout)
    for wrong in ({**printed, "more": 1}, {key: value for key, value in printed.items() if key != "signal"}):
        with pytest.raises(ValidationError):
            held("run", wrong)


def test_a_command_without_one(isandbox: Any) -> None:
    """Asking for a schema that is not there is wrong usage, and those that are there are named."""
    done = isandbox("schema", "completion")
    assert done.returncode == 2
    assert ", ".join(COMMANDS) in " ".join(done.stderr.decode().split())


def test_schemas_are_data() -> None:
    """A schema imports the words that it is written with, and nothing of what it describes."""
    for command in COMMANDS:
        found = importlib.util.find_spec(f"isandbox.cli.schemas.{command}")
        assert found is not None
        tree = ast.parse(Path(str(found.origin)).read_text(encoding="utf-8"))
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {name for name in modules if name and not name.startswith("isandbox.cli.schemas.")} == {"__future__"}
