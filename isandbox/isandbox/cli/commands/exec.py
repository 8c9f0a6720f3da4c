"""`isandbox exec`."""

from __future__ import annotations

from typing import Any

import click

from isandbox.cli._complete import complete_ids
from isandbox.cli.commands._words import OneThenCommand
from isandbox.cli.life.durations import parse_duration


@click.command(name="exec", cls=OneThenCommand)
@click.option("-i", "--interactive", is_flag=True, help="Pass stdin on; without it CMD reads nothing.")
@click.option(
    "-t", "--tty", "terminal", is_flag=True, help="Give CMD a terminal of its own; with -i, yours is connected with it."
)
@click.option("-d", "--detach", "background", is_flag=True, help="Leave it running, keep its output, and print its number.")
@click.option("-w", "--workdir", "cwd", metavar="DIR", help="Directory inside to start in; the workspace without it.")
@click.option(
    "-e", "--env", "env", multiple=True, metavar="NAME[=VALUE]", help="Set a variable; a bare NAME copies the host's."
)
@click.option(
    "--timeout",
    type=parse_duration,
    metavar="TIME",
    help="End CMD after so long: seconds, or a number with s, m, h or d (exit code 124).",
)
@click.option("--raw", is_flag=True, help="Let CMD's output act on your terminal, whatever is in it.")
@click.option("--json", "json_", is_flag=True, help="Stream nothing; print one JSON object at the end.")
@click.argument("id", shell_complete=complete_ids)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def exec_(
    *,
    id: str,
    command: tuple[str, ...],
    env: tuple[str, ...],
    json_: bool,
    **options: Any,
) -> None:
    """Run CMD in the sandbox ID and exit with its exit code. ID may be the beginning of an id.

    ID is a sandbox that isandbox create, or a program with detached=True, has made. CMD has its environment, working directory,
    quotas and limits. Output arrives as it is written, stdout on stdout and stderr on stderr. CMD ends with this command: when
    isandbox is killed, the sandbox ends CMD.

    -i passes your standard input on. -t gives CMD a terminal, on which stdout and stderr are one stream; -i and -t together
    connect yours with it, as isandbox shell does: every key goes in, Ctrl-C too, the size follows, and CMD's bytes
    reach your terminal as they are. For that stdin has to be a terminal.

    -d starts CMD, prints its number and lets go of it: it goes on without anybody. The sandbox keeps the last of its output
    (1 MiB of each stream) for isandbox logs; isandbox ps ID lists it, isandbox kill -s signals it, and isandbox shell
    --attach takes up one that was started with -d -t -i.

    SIGINT, SIGTERM and SIGHUP are passed on to CMD, but for those that were ignored (nohup); a second Ctrl-C kills it.

    \b
    Exit code:
      the command's own; 128 + n when signal n ended it; 0 with -d
      2    wrong usage of isandbox
      124  the time-out of --timeout
      125  isandbox itself failed, or there is no such sandbox; the reason is
           on stderr
      126  CMD cannot be executed
      127  CMD was not found
      129  the terminal of a session with -i and -t is gone; 143 for SIGTERM
      141  nobody reads isandbox's output any more; CMD was ended

    On a terminal CMD's output is made harmless, as isandbox run does; --raw turns that off.

    With --json nothing is streamed, and one object is printed at the end, as isandbox run has it; with -d it is id and pid.
    Schema: isandbox.exec/1 (isandbox schema exec).

    \b
    Examples:
      isandbox exec seccomp-4f1c -- make test
      isandbox exec -i seccomp-4f1c -- tar -xf - < source.tar
      isandbox exec -d -e PORT=8000 seccomp-4f1c -- python3 server.py
      isandbox exec -i -t seccomp-4f1c -- vi notes.txt
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from isandbox.cli._host import read_env
    from isandbox.cli._options import split_env
    from isandbox.cli.life.execute import ExecOptions, exec_command

    both = options["interactive"] and options["terminal"]
    if json_ and both and not options["background"]:
        raise click.UsageError("--json streams nothing, so it does not go with -i and -t together")
    host_env = read_env()
    variables = dict(split_env(item, host_env) for item in env)
    raise SystemExit(exec_command(ExecOptions(id, command, env=variables, json=json_, **options)))
