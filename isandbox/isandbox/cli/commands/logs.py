"""`isandbox logs`."""

from __future__ import annotations

import click

from isandbox.cli._complete import complete_ids
from isandbox.cli.commands._words import Number


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with what it writes, to its end.")
@click.option("--since", metavar="OUT[,ERR]", help="Begin after so many bytes of stdout, and of stderr.")
@click.option("-n", "--tail", type=Number(min=0), metavar="LINES", help="Only the last lines of each stream.")
@click.option("--raw", is_flag=True, help="Let the output act on your terminal, whatever is in it.")
@click.argument("id", shell_complete=complete_ids)
@click.argument("number", metavar="[N]", required=False, type=Number(min=1))
def logs(*, id: str, number: int | None, follow: bool, since: str | None, tail: int | None, raw: bool) -> None:
    """Print what background command N of the sandbox ID has written; without N, the newest one.

    Its stdout goes to stdout and its stderr to stderr; of a command with a terminal both are stdout. How the two
    interleaved is not kept. A sandbox keeps the last of each stream (1 MiB unless the program that started it says otherwise);
    a line on stderr says how much is gone. Offsets count from the command's first byte, whatever is gone by now;
    isandbox ps ID --json has them as written and first.

    The command goes on whatever happens to this one. On a terminal its output is made harmless, as isandbox run does;
    --raw turns that off.

    \b
    Exit code:
      0    printed; with -f, the command has ended
      2    wrong usage of isandbox
      125  isandbox itself failed, or there is no such sandbox or command
      130  Ctrl-C
      141  nobody reads isandbox's output any more

    \b
    Examples:
      isandbox logs seccomp-4f1c
      isandbox logs -f --tail 20 seccomp-4f1c 3
      isandbox logs seccomp-4f1c 3 --since 104857,0 >> server.log
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from isandbox.cli.life.logs import LogsOptions, logs_command, split_since

    if since is not None and tail is not None:
        raise click.UsageError("--since and --tail say both where to begin; give one of them")
    begin = None if since is None else split_since(since)
    raise SystemExit(logs_command(LogsOptions(id, number, follow, begin, tail, raw)))
