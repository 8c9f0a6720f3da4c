"""`isandbox run`."""

from __future__ import annotations

from typing import Any

import click

from isandbox.cli._complete import complete_files
from isandbox.cli.commands._sandbox import sandbox_options
from isandbox.cli.commands._words import WithoutTerminal
from isandbox.cli.life.durations import parse_duration


@click.command(cls=WithoutTerminal, context_settings={"allow_interspersed_args": False})
@sandbox_options
@click.option(
    "--timeout",
    type=parse_duration,
    metavar="TIME",
    help="End the command after so long: seconds, or a number with s, m, h or d (exit code 124).",
)
@click.option(
    "--toolchain",
    type=click.Choice(["auto", "none"]),
    default="auto",
    show_default=True,
    help="auto: show, read-only, the installation that the program on your PATH belongs to.",
)
@click.option("--raw", is_flag=True, help="Let CMD's output act on your terminal, whatever is in it.")
@click.option("--json", "json_", is_flag=True, help="Stream nothing; print one JSON object at the end.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...", shell_complete=complete_files)
def run(**options: Any) -> None:
    """Run CMD in a sandbox of its own and exit with its exit code.

    CMD works in the current directory, which it can read and not write (-w .:rw lets it; -w none is an empty one that it can),
    without a network and without your environment, home directory or other files. Its output arrives as it is written. Your standard input is
    read ahead for it, as ssh does; < /dev/null keeps that for others. It has pipes, never your terminal: an interactive
    program shows no prompt.

    Inside, the current directory is /workspace (with the local backend it keeps its path). CMD's arguments are passed as they
    are, so name files by relative paths.

    \b
    Exit code:
      the command's own; 128 + n when signal n ended it
      2    wrong usage of isandbox
      124  the time-out of --timeout
      125  isandbox itself failed; the reason is on stderr
      126  CMD cannot be executed
      127  CMD was not found
      141  nobody reads isandbox's output any more

    Where stdout or stderr is a terminal, CMD's output is made harmless: text, colours, tabs and movement within a line pass;
    every other control sequence (titles, the clipboard, requests that the terminal answers as if you had typed) is shown, as
    in \\x1b]0;title. What is no UTF-8 is shown so too. --raw turns that off. In a pipe or file every byte is as CMD wrote it.

    SIGINT, SIGTERM and SIGHUP are passed on to the command; a second Ctrl-C kills it.

    With --json nothing is streamed, and one object is printed at the end: exit_code, signal, fault (timeout, oom, cpu, output,
    cancelled, killed or null), limits_hit (sorted names of quotas that refused something), stdout and stderr (text; head and
    tail of what is over 1 MiB), truncated, lingering, start_error, duration and cpu_time (seconds), max_rss (bytes). When
    isandbox itself fails: {"error": {"code": ..., "message": ...}} and exit code 125. Schema: isandbox.run/1 (isandbox schema run).

    With --policy FILE the file alone says what CMD sees and may use: neither the current directory nor a toolchain is added.
    Relative paths in it begin at its own directory. --env adds variables to it. What isandbox.toml and ISANDBOX_* variables
    set are defaults of the other options; docs/configuration.md has all of them.

    --toolchain auto never executes anything to find the program: it reads links, pyvenv.cfg, pyenv's version files and
    "#!" lines. It never shows /, /etc, or a home directory.

    \b
    Examples:
      isandbox run -- python3 script.py
      isandbox run --timeout 10 --memory 512MiB -w .:rw -- make -j2
      isandbox run --json -- sh -c 'sort words | uniq -c' < /dev/null
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    try:
        from isandbox.cli._options import parse_options
        from isandbox.cli._run import run_command

        code = run_command(parse_options(**options))
    except KeyboardInterrupt:  # before there is a command, or after it
        code = 130
    raise SystemExit(code)
