"""`isandbox doctor`."""

from __future__ import annotations

import click


@click.command()
@click.option("--quick", is_flag=True, help="Do not hit the quotas, which takes a few seconds.")
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
def doctor(*, quick: bool, json_: bool) -> None:
    """Say which backends run here, what each one enforces, what the others need, and what of this machine is in the way.

    A backend of this machine is tried: a sandbox is started, runs "true" and is closed; its layers are those that the helper
    found in force. Others are only asked. Each quota of the default backend is hit: a command in a sandbox wants more than was
    asked for, and what it reached is told.

    \b
    Of a quota:
      enforced      the kernel, or the reader of the output, held it
      watched       it was looked at; reached says how far it was overshot
      unsupported   asking for it is refused
      not enforced  the command got all that it wanted
      not measured  a program was missing, or the control failed

    Then the machine: kernel, namespaces, AppArmor, SELinux, containers, WSL, Landlock, ids, control groups, mounts and the
    helper; each ok, warn (something holds less), fail (sandboxes cannot start, and this is a reason) or not applicable, with
    a command to copy.

    \b
    Exit code:
      0    the backend that create_sandbox() takes without a type can run
      1    it cannot; the reason and what to do are printed
      2    wrong usage of isandbox
      125  nothing can be printed
      141  nobody reads isandbox's output any more

    With --json one object is printed: default (name, chosen_by: "SANDBOX_TYPE", "platform" or a settings file, reason: null when it can run);
    backends, a list: name, aliases, available, tried, reason (null when available), and for an available one isolation,
    quotas and policies (name to kind: "kernel", "watched" or "unsupported", period in seconds, note, instead), verbs,
    weaknesses, layers (name to "enforced" or "absent", with more in brackets; of the sandbox that was tried); measured, a list
    of quotas: name, state, asked, reached, unit, detail; host, a list of checks: name, state, seen, fix.
    Schema: isandbox.doctor/1 (isandbox schema doctor).

    \b
    Examples:
      isandbox doctor
      SANDBOX_TYPE=local isandbox doctor --quick
      isandbox doctor --json | python3 -m json.tool
    """  # noqa: D301 - as above
    from isandbox.cli.doctor import doctor_command

    raise SystemExit(doctor_command(as_json=json_, quick=quick))
