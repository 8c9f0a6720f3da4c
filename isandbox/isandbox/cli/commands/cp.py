"""`isandbox cp`."""

from __future__ import annotations

import click

from isandbox.cli._complete import complete_files


@click.command()
@click.option("-r", "--recursive", is_flag=True, help="Copy directories with all that is in them.")
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
@click.argument("source", metavar="SRC", shell_complete=complete_files)
@click.argument("target", metavar="DST", shell_complete=complete_files)
def cp(*, source: str, target: str, recursive: bool, json_: bool) -> None:
    """Copy SRC to DST. One of the two is ID:PATH, in the sandbox ID; the other is on the host.

    A relative PATH starts at the sandbox's workspace. What is copied into a directory that is there keeps its name, as with cp;
    else DST is its new name. A file of the host with a colon in its name is written ./a:b.

    Regular files, directories and links that stay inside the tree are copied; anything else refuses the whole copy, before
    anything is written. Permission bits go along, owners and times do not. Nothing that is inside is trusted: a copy to the host
    is written beside DST and renamed when it is whole, never follows a link, and takes at most as many files, bytes and levels
    as the files API does. To the host an existing file is replaced and a directory is not merged into another of its name.

    SRC may be - for a tar archive, plain or gzip, on stdin, which is unpacked in the directory DST inside when all of it has
    been checked.

    \b
    Exit code:
      0    all of it is there
      2    wrong usage of isandbox
      125  isandbox itself failed, or something was refused; the reason is on
           stderr
      130  Ctrl-C
      141  nobody reads isandbox's output any more

    With --json one object is printed: files and bytes that were copied. Schema: isandbox.cp/1 (isandbox schema cp).

    \b
    Examples:
      isandbox cp data.csv seccomp-4f1c:data.csv
      isandbox cp -r seccomp-4f1c:build/report ./report
      git archive HEAD | isandbox cp - seccomp-4f1c:src
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from isandbox.cli.life.copy import copy_command

    raise SystemExit(copy_command(source, target, recursive=recursive, as_json=json_))
