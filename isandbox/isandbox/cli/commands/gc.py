"""`isandbox gc`."""

from __future__ import annotations

import click


@click.command()
@click.option("-n", "--dry-run", is_flag=True, help="Remove nothing; print the ids of sandboxes that have left something.")
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
def gc(*, dry_run: bool, json_: bool) -> None:
    """Remove what sandboxes of dead owners have left behind, and print what was removed, one name a line.

    That is what a program killed by SIGKILL, a crash or a power cut leaves: processes, directories, control groups. Nothing of
    what lives is touched, nor anything of another user, another machine or another container. It may run at any time, and twice
    at once. isandbox itself removes what it made in every other case, so that often there is nothing to do.

    \b
    Exit code:
      0    done, also when there was nothing to remove
      2    wrong usage of isandbox
      125  isandbox itself failed; the reason is on stderr
      141  nobody reads isandbox's output any more

    With --json one object is printed: dry_run, and removed, a list of names. Schema: isandbox.gc/1 (isandbox schema gc).

    \b
    Examples:
      isandbox gc
      isandbox gc --dry-run
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from isandbox.cli.life.collect import gc_command

    raise SystemExit(gc_command(dry_run=dry_run, as_json=json_))
