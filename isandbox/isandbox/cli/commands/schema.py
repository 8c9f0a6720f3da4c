"""`isandbox schema`."""

from __future__ import annotations

import click


@click.command()
@click.argument("command", required=False)
def schema(*, command: str | None) -> None:
    """Print the JSON Schema (draft 2020-12) of what COMMAND prints with --json; without COMMAND, the names of all schemas.

    A schema has a version, isandbox.run/1. Within a version keys are only added; a program ignores those that it does not know.

    \b
    Exit code:
      0    it is printed
      2    wrong usage of isandbox, or a command without a schema
      125  it cannot be written
      141  nobody reads isandbox's output any more

    \b
    Examples:
      isandbox schema
      isandbox schema run
      isandbox schema doctor > doctor.json
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    import json

    from isandbox.cli._streams import hold_standard_descriptors, say
    from isandbox.cli.schemas import COMMANDS, load_schema, schema_name

    if command is not None and command not in COMMANDS:
        raise click.BadParameter(f"{command!r} has no schema; there are: {', '.join(COMMANDS)}", param_hint="COMMAND")
    hold_standard_descriptors()
    names = "\n".join(map(schema_name, COMMANDS))
    raise SystemExit(say(names if command is None else json.dumps(load_schema(command), indent=2), 0))
