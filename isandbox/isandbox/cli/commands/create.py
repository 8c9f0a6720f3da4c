"""`isandbox create`."""

from __future__ import annotations

from typing import Any

import click

from isandbox.cli.commands._sandbox import life_options, sandbox_options


@click.command()
@sandbox_options
@life_options
@click.option("--idempotency-key", metavar="KEY", help="Made once under this key: a second call prints the id of the first.")
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
def create(**options: Any) -> None:
    """Make a sandbox that outlives this command, and print its id alone on a line.

    It lives until its lifetime (one hour without --lifetime, at most 30 days) or its idle time-out ends, or isandbox kill ends it.
    It is yours alone: other users of the machine can neither see nor reach it. isandbox exec and isandbox shell run commands
    in it, isandbox cp copies files.

    The workspace is the current directory, which commands can read and not write; -w .:rw lets them, -w DIR names another.
    They see it as it is at any time, also what you change later. With -w none it is an empty one, which can be written and
    ends with the sandbox. The local backend needs -w DIR:rw or -w none, as it cannot keep commands from writing.

    When the id cannot be printed the sandbox is ended again, but for one with --idempotency-key, which can be found.

    \b
    Exit code:
      0    it is there
      2    wrong usage of isandbox
      125  it is not there; the reason is on stderr
      141  nobody reads isandbox's output any more

    With --json one object is printed: id, type, isolation, workspace (its path inside), created_at, lifetime and idle_timeout
    (seconds, or null), labels, waived. Schema: isandbox.create/1 (isandbox schema create).

    \b
    Examples:
      isandbox create -w none
      id=$(isandbox create -w .:rw --lifetime 2h --idle-timeout 15m)
      isandbox create -w none --memory 2GiB --disk 1GiB --label job=nightly
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from isandbox.cli._options import parse_options, split_labels
    from isandbox.cli.life.create import CreateOptions, create_command

    life = {name: options.pop(name) for name in ("lifetime", "idle_timeout", "idempotency_key")}
    labels, as_json = split_labels(options.pop("labels")), options.pop("json_")
    run = parse_options(command=(), toolchain="none", json_=as_json, **options)
    raise SystemExit(create_command(CreateOptions(run, labels=labels, json=as_json, **life)))
