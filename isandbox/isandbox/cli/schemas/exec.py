"""`isandbox exec --json`."""

from __future__ import annotations

from isandbox.cli.schemas.build import document, integer, record
from isandbox.cli.schemas.run import RESULT

SCHEMA = document(
    "isandbox.exec/1",
    "What became of the command, or what was started.",
    RESULT,
    record(
        "With -d: the command goes on.",
        id=integer("Its number, for isandbox logs, kill -s and shell --attach."),
        pid=integer("Its pid inside."),
    ),
)
