"""`isandbox kill --json`."""

from __future__ import annotations

from isandbox.cli.schemas.build import FAILURE, array, boolean, document, integer, record, text

SCHEMA = document(
    "isandbox.kill/1",
    "What became of each sandbox, or of the signal.",
    record(
        "Without -s.",
        sandboxes=array(
            "In the order of the arguments.",
            record(
                "One sandbox.",
                ("killed", "error"),
                id=text("Its id; the argument where it has none."),
                killed=boolean("It was there."),
                error=FAILURE["properties"]["error"],
            ),
        ),
    ),
    record(
        "With -s.",
        id=text("The sandbox."),
        command=integer("The number of the background command."),
        signalled=boolean("False when it had ended."),
    ),
)
