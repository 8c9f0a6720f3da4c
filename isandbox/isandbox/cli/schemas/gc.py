"""`isandbox gc --json`."""

from __future__ import annotations

from isandbox.cli.schemas.build import array, boolean, document, text

SCHEMA = document(
    "isandbox.gc/1",
    "What was removed.",
    dry_run=boolean("Nothing was removed: these are the sandboxes that have left something."),
    removed=array("Sandboxes, directories and control groups, sorted.", text("A name.")),
)
