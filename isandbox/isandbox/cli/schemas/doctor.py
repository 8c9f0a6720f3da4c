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
        chosen_by=text("Who chose it: platform, or the name of the setting that did, such as SANDBOX_TYPE."),
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
    measured=array(
        "Quotas of the default backend, each hit in a sandbox; empty with --quick, or where it cannot run.",
        record(
            "One quota.",
            name=text("Its name."),
            state=text("What was found.", "enforced", "watched", "unsupported", "not enforced", "not measured"),
            asked=or_null(number("The quota of the sandbox, in unit.")),
            reached=or_null(number("What a command got that wanted more, in unit.")),
            unit=text("Of both figures; empty where there are none."),
            detail=text("How it was told, or why it was not measured."),
        ),
    ),
    host=array(
        "Checks of this machine.",
        record(
            "One check.",
            name=text("Its name."),
            state=text("What was found.", "ok", "warn", "fail", "not applicable"),
            seen=text("What was seen."),
            fix=text("A command to copy; empty where none is needed, or none helps."),
        ),
    ),
)
