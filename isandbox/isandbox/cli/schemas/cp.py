"""`isandbox cp --json`."""

from __future__ import annotations

from isandbox.cli.schemas.build import document, integer

SCHEMA = document(
    "isandbox.cp/1",
    "What was copied.",
    files=integer("Regular files."),
    bytes=integer("Bytes of them."),
)
