"""The JSON Schemas of what the commands print with ``--json``: one module a command, each with a ``SCHEMA``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

COMMANDS = ("audit", "cp", "create", "doctor", "exec", "gc", "inspect", "kill", "ps", "run")
"""Those with a ``--json`` option, sorted."""


def load_schema(command: str) -> dict[str, Any]:
    """A document of JSON Schema, draft 2020-12."""
    schema: dict[str, Any] = import_module(f"isandbox.cli.schemas.{command}").SCHEMA
    return schema


def schema_name(command: str) -> str:
    """As the help names it: ``isandbox.run/1``."""
    return str(load_schema(command)["title"])
