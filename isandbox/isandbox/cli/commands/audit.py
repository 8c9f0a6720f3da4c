"""`isandbox audit`."""

from __future__ import annotations

import click

from isandbox.cli._complete import complete_backends


@click.command()
@click.option(
    "--type",
    "type_",
    metavar="TYPE",
    shell_complete=complete_backends,
    help="Backend; without it SANDBOX_TYPE, else the platform's native one.",
)
@click.option(
    "--only", multiple=True, metavar="ID", help="Only the probes whose id begins so, e.g. A or B14. May be repeated."
)
@click.option("--json", "json_", is_flag=True, help="Print one JSON object at the end.")
def audit(*, type_: str | None, only: tuple[str, ...], json_: bool) -> None:
    """Run the containment probes in sandboxes of a backend and print what became of each.

    Every probe runs inside a sandbox of its own, which needs a python3. It tries what an attacker would, by opening and
    closing, without writing to anything of the host, and says what stopped it. What the backend does not claim to stop is not
    tried.

    \b
    BLOCKED       refused
    CONTAINED     it worked, and only inside
    NOT-PROVIDED  the backend does not claim this
    LEAK          it reached the host, or was answered in a way that is no refusal
    VACUOUS       nothing is proven: the positive control failed, or there is
                  nothing to attack on this machine

    \b
    Exit code:
      0    no LEAK
      1    at least one LEAK
      2    wrong usage of isandbox
      125  the backend cannot run or the audit failed, and the reason is on
           stderr; or all that was tried is VACUOUS
      130  interrupted; 129 and 143 when SIGHUP or SIGTERM ended it
      141  nobody reads isandbox's output any more

    With --json one object is printed: type, counts (outcome to number), figures (name to number) and findings, a list: probe,
    title, group, outcome, mechanism, detail, figures. Schema: isandbox.audit/1 (isandbox schema audit).

    \b
    Examples:
      isandbox audit
      isandbox audit --only B --only C03
      isandbox audit --type seccomp --json > found.json
    """  # noqa: D301 - as above
    from isandbox.cli._audit import audit_command

    raise SystemExit(audit_command(type_, only=only, as_json=json_))
