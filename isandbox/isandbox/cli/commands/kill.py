"""`isandbox kill`."""

from __future__ import annotations

import click

from isandbox.cli._complete import complete_ids


@click.command()
@click.option("-s", "--signal", "signal_", metavar="SIGNAL", help="Send a signal, TERM or 15, to background command N of ID.")
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
@click.argument("ids", nargs=-1, required=True, metavar="ID... | -s SIGNAL ID N", shell_complete=complete_ids)
def kill(*, ids: tuple[str, ...], signal_: str | None, json_: bool) -> None:
    """End sandboxes, whoever uses them, and print the id of each that was there.

    Every process in it is ended, and what it made on the host is removed; its workspace stays. An owned sandbox of another
    process of yours can be ended too: that process is told that the sandbox is lost. One that had ended is no error.

    With -s nothing is ended: the signal goes to the process group of background command N of the one sandbox ID. One that has
    ended gets none.

    \b
    Exit code:
      0    none of them is there any more; with -s, the signal is on its way
      2    wrong usage of isandbox
      125  isandbox itself failed for at least one, or nobody knows its id;
           the reason is on stderr, and the others are ended all the same
      141  nobody reads isandbox's output any more

    With --json one object is printed. sandboxes: a list of id and killed (whether it was there), or of id and error. With -s:
    id, command and signalled. Schema: isandbox.kill/1 (isandbox schema kill).

    \b
    Examples:
      isandbox kill seccomp-4f1c
      isandbox kill $(isandbox ps -q --label job=nightly)
      isandbox kill -s INT seccomp-4f1c 3
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from isandbox.cli.life.kill import kill_command, signal_command, signal_number

    if signal_ is None:
        raise SystemExit(kill_command(ids, as_json=json_))
    if len(ids) != 2 or not ids[1].isdecimal() or len(ids[1]) > 9:
        raise click.UsageError("-s goes to one background command: isandbox kill -s SIGNAL ID N")
    raise SystemExit(signal_command(ids[0], signal_number(signal_), int(ids[1]), as_json=json_))
