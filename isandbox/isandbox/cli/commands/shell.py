"""`isandbox shell`."""

from __future__ import annotations

from typing import Any

import click

from isandbox.cli._complete import complete_ids
from isandbox.cli.commands._sandbox import life_options, sandbox_options
from isandbox.cli.commands._words import MaybeThenCommand, Number
from isandbox.cli.life.keys import DETACH_DEFAULT

_OF_A_NEW_ONE = ("type_", "cpus", "memory", "pids", "disk", "mounts", "env", "workspace", "waive", "policy")
_OF_ITS_LIFE = ("lifetime", "idle_timeout", "labels")


@click.command(cls=MaybeThenCommand)
@sandbox_options
@life_options
@click.option("--attach", type=Number(min=1), metavar="N", help="Take up background command N of ID, as ps ID numbers it.")
@click.option(
    "--detach-keys",
    metavar="KEYS",
    show_default=DETACH_DEFAULT,
    help="Keys that let go of the shell of ID: characters, or ctrl- and one, with commas between; empty for none.",
)
@click.argument("id", required=False, shell_complete=complete_ids)
def shell(*, id: str | None, command: tuple[str, ...], attach: int | None, detach_keys: str | None, **options: Any) -> None:
    """Open a shell at your terminal: in the sandbox ID or, without ID, in a new one that ends with the shell.

    The shell is /bin/bash where the sandbox has it, else /bin/sh; -- CMD runs something else. It has a terminal of its
    own, with job control, and the type (TERM) and size of yours. Every key goes in: Ctrl-C, Ctrl-Z and Ctrl-D are the shell's.
    Your terminal is given back as it was, whatever ends the session but SIGKILL; what you typed ahead is dropped then, so that
    it cannot end up in your own shell. The bytes of a session reach your terminal as they are, as with ssh: a hostile program
    can draw what it likes and set a title; use isandbox run or exec without -t for output that is made harmless.

    In a sandbox ID the shell is a background command of it. The detach keys, a closed terminal or SIGTERM let go of it, and
    --attach N takes it up again, with what it writes from then on. It ends with exit, or with the sandbox. The first of
    the detach keys waits for the next one: with the default, press Ctrl-P twice for the last line of the shell's history. Without
    detach keys (--detach-keys '') the shell is no background command, and ends with the session.

    Without ID the options are those of isandbox create, and the sandbox is gone when the shell ends.

    Where stdin is no terminal the shell reads it as a script, without a terminal of its own, and ends with it. --attach passes
    it on then and does not end the command's input, which others may want to use.

    \b
    Exit code:
      the shell's own; 128 + n when signal n ended it; 0 when it goes on
      2    wrong usage of isandbox
      125  isandbox itself failed, or the sandbox has ended; the reason is on
           stderr
      126  CMD cannot be executed
      127  CMD was not found
      129  the terminal is gone; 131 or 143 when SIGQUIT or SIGTERM ended the
           session
      141  nobody reads isandbox's output any more

    \b
    Examples:
      isandbox shell -w none
      isandbox shell -w .:rw --memory 1GiB -- bash -l
      isandbox shell seccomp-4f1c
      isandbox shell seccomp-4f1c --attach 3
      echo 'make && ./test' | isandbox shell seccomp-4f1c
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from isandbox.cli._options import parse_options, split_labels
    from isandbox.cli.life.create import CreateOptions
    from isandbox.cli.life.shell import ShellOptions, shell_command

    if id is not None and (given := [name for name in (*_OF_A_NEW_ONE, *_OF_ITS_LIFE) if options[name]]):
        word = given[0].rstrip("_").replace("_", "-")
        raise click.UsageError(f"--{word} is for a sandbox that is made; {id} is there already")
    if attach is not None and (id is None or command):
        raise click.UsageError("--attach takes up a command of ID: it needs one, and no command of its own")
    if detach_keys is not None and id is None:
        raise click.UsageError("--detach-keys leaves the shell of a sandbox ID; one without ID ends with its shell")
    create = None
    if id is None:
        life = {name: options.pop(name) for name in _OF_ITS_LIFE}
        run = parse_options(command=command, toolchain="auto", json_=False, **options)
        create = CreateOptions(run, life["lifetime"], life["idle_timeout"], split_labels(life["labels"]))
    raise SystemExit(
        shell_command(ShellOptions(command, id, create, attach, DETACH_DEFAULT if detach_keys is None else detach_keys))
    )
