"""`isandbox doctor`."""

from __future__ import annotations

import click


@click.command()
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
def doctor(*, json_: bool) -> None:
    """Say which backends run here, what each one enforces, and what the others need.

    A backend of this machine is tried: a sandbox is started, runs "true" and is closed. Others are only asked.

    \b
    Exit code:
      0    the backend that create_sandbox() takes without a type can run
      1    it cannot; the reason and what to do are printed
      2    wrong usage of isandbox
      125  nothing can be printed
      141  nobody reads isandbox's output any more

    With --json one object is printed: default (name, chosen_by: "SANDBOX_TYPE" or "platform", reason: null when it can run)
    and backends, a list: name, aliases, available, tried, reason (null when available), and for an available one isolation,
    quotas and policies (name to kind: "kernel", "watched" or "unsupported", period in seconds, note, instead), verbs,
    weaknesses, layers (name to "enforced" or "absent", with more in brackets; of the sandbox that was tried).
    Schema: isandbox.doctor/1 (isandbox schema doctor).

    \b
    Examples:
      isandbox doctor
      SANDBOX_TYPE=local isandbox doctor
      isandbox doctor --json | python3 -m json.tool
    """  # noqa: D301 - as above
    from isandbox.cli._doctor import doctor_command

    raise SystemExit(doctor_command(as_json=json_))
