"""`isandbox ps`."""

from __future__ import annotations

import click

from isandbox.cli._complete import complete_backends, complete_ids


@click.command()
@click.option("--type", "type_", metavar="TYPE", shell_complete=complete_backends, help="Only those of this backend.")
@click.option("--label", "labels", multiple=True, metavar="K=V", help="Only those with this label. May be repeated.")
@click.option("-a", "--all", "everything", is_flag=True, help="Also those that have ended or belong to another machine.")
@click.option("-q", "--quiet", is_flag=True, help="Print ids, or numbers of background commands, and nothing else.")
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
@click.argument("id", required=False, shell_complete=complete_ids)
def ps(*, id: str | None, type_: str | None, labels: tuple[str, ...], everything: bool, quiet: bool, json_: bool) -> None:
    """List your sandboxes that run, oldest first; with ID, the background commands of that one.

    OWNER is the process whose end is the sandbox's, or detached for one that stays without. ENDS IN is an estimate: a clock that
    jumps or a renewal by another program changes it. A sandbox has ended when its process is gone; isandbox gc removes what
    it left.

    -q prints the ids of those that stay, for other commands to take. A sandbox that another program owns is in use by it: its id is
    printed with -a too.

    With ID: N is the number for isandbox logs, kill -s and shell --attach, OUTPUT the bytes written so far, STATE how it ended:
    exit and the code, the signal, or what the sandbox ended it for. Those that have ended are listed too, the newest 32; with
    -q only those that run, unless -a is given.

    \b
    Exit code:
      0    printed, also when there are none
      2    wrong usage of isandbox
      125  isandbox itself failed, or there is no sandbox ID
      141  nobody reads isandbox's output any more

    With --json one object is printed. sandboxes: a list of id, type, state (running, ended or elsewhere), detached, created_at,
    expires_at, owner_pid, labels. Or, with ID, commands: a list of id, pid, command, running, exit_code, signal, fault,
    started_at, terminal, written and first (offsets in bytes of stdout and stderr). Schema: isandbox.ps/1 (isandbox schema ps).

    \b
    Examples:
      isandbox ps
      isandbox ps --label job=nightly -q
      isandbox ps seccomp-4f1c
      isandbox ps --all --json
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from isandbox.cli.life.listing import ps_command

    if id is not None and (type_ is not None or labels):
        raise click.UsageError("--type and --label choose among sandboxes; with ID there is one")
    raise SystemExit(ps_command(id, type=type_, labels=labels, quiet=quiet, everything=everything, as_json=json_))
