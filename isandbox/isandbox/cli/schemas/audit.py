"""`isandbox audit --json`."""

from __future__ import annotations

from isandbox.cli.schemas.build import array, document, integer, mapping, record, text

_OUTCOMES = ("BLOCKED", "CONTAINED", "NOT-PROVIDED", "LEAK", "VACUOUS")

SCHEMA = document(
    "isandbox.audit/1",
    "What became of each attack.",
    type=text("The backend."),
    counts=mapping("Outcome to number.", integer("How many probes.")),
    figures=mapping("Name to number, of all probes.", integer("What can be reached.")),
    findings=array(
        "One for each probe.",
        record(
            "One probe.",
            probe=text("Its id."),
            title=text("What is tried."),
            group=text("What it is about."),
            outcome=text("What became of it.", *_OUTCOMES),
            mechanism=text("What stopped it."),
            detail=text("What was seen."),
            figures=mapping("Name to number.", integer("What can be reached.")),
        ),
    ),
)
