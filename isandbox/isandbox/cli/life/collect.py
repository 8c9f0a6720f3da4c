"""`isandbox gc`: what dead owners have left behind."""

from __future__ import annotations

from isandbox.cli._output import say_object
from isandbox.cli._streams import STDERR, say
from isandbox.cli.life.edge import guarded
from isandbox.cli.life.listing import say_lines


def gc_command(*, dry_run: bool, as_json: bool) -> int:
    """0, or 125."""
    return guarded(lambda: _collect(dry_run=dry_run, as_json=as_json), as_json=as_json)


def _collect(*, dry_run: bool, as_json: bool) -> int:
    from isandbox.sync import list_sandboxes, reap

    found = [one.id for one in list_sandboxes() if one.leftovers] if dry_run else list(reap().removed)
    if as_json:
        return say_object({"dry_run": dry_run, "removed": found})
    if not found:
        return say("isandbox: nothing is left of sandboxes that have ended", 0, STDERR)
    return say_lines(found)
