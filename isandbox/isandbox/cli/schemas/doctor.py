"""`isandbox doctor --json`."""

from __future__ import annotations

from isandbox.cli.schemas.build import array, boolean, document, mapping, number, or_null, record, text

_ENFORCEMENT = record(
    "How it is held.",
    kind=text("Who holds it.", "kernel", "watched", "unsupported"),
    note=text("What else there is to know."),
    period=or_null(number("Seconds between two looks.")),
    instead=text("What to do where it is unsupported."),
    told=text("How a result learns of it.", "", "counted", "looked", "exit"),
)

SCHEMA = document(
    "isandbox.doctor/1",
    "What this machine can do.",
    default=record(
        "What create_sandbox() takes.",
        name=or_null(text("The backend.")),
        chosen_by=text("Who chose it.", "SANDBOX_TYPE", "platform"),
        reason=or_null(text("Why it cannot run; null when it can.")),
    ),
    backends=array(
        "Every backend.",
        record(
            "One backend; all after reason is of an available one.",
            ("isolation", "quotas", "policies", "verbs", "weaknesses", "layers"),
            name=text("Its name."),
            aliases=array("Other names.", text("A name.")),
            available=boolean("It can run."),
            tried=boolean("A sandbox of it was started."),
            reason=or_null(text("Why it cannot run; null when it can.")),
            isolation=text("How strong.", "none", "unknown", "os", "container", "userkernel", "vm"),
            quotas=mapping("By the name of the quota.", _ENFORCEMENT),
            policies=mapping("By the name of the policy.", _ENFORCEMENT),
            verbs=array("Optional verbs that work.", text("A verb.")),
            weaknesses=array("What it does not hold.", text("A sentence.")),
            layers=mapping("Of the sandbox that was started.", text("enforced or absent, with more in brackets.")),
        ),
    ),
)
