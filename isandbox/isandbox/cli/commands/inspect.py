"""`isandbox inspect`."""

from __future__ import annotations

import click

from isandbox.cli._complete import complete_ids


@click.command()
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
@click.argument("id", shell_complete=complete_ids)
def inspect(*, id: str, json_: bool) -> None:
    """Say all that is known of the sandbox ID: its state, what it is made of, what holds, what it uses, and its commands.

    Of a sandbox that has ended, or that belongs to another process, only what isandbox ps knows is said.

    \b
    Exit code:
      0    printed
      2    wrong usage of isandbox
      125  isandbox itself failed, or there is no such sandbox
      141  nobody reads isandbox's output any more

    With --json one object is printed: what isandbox ps --json has of it and, of one that can be reached, isolation, workspace,
    quotas (those that are set), layers (name to "enforced" or "absent", with more in brackets), waived, metrics (processes,
    cpu_time in seconds, memory in bytes) and commands, as isandbox ps ID --json has them. Schema: isandbox.inspect/1
    (isandbox schema inspect).

    \b
    Examples:
      isandbox inspect seccomp-4f1c
      isandbox inspect --json seccomp-4f1c
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from isandbox.cli.life.inspect import inspect_command

    raise SystemExit(inspect_command(id, as_json=json_))
