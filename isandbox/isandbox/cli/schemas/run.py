"""`isandbox run --json`."""

from __future__ import annotations

from isandbox.cli.schemas.build import array, boolean, document, integer, number, or_null, record, text

RESULT = record(
    "What became of the command.",
    exit_code=integer("What the kernel said; 128 + n when signal n ended it, 126 and 127 when it did not start."),
    signal=or_null(integer("The signal that ended it.")),
    fault=or_null(text("Why the sandbox ended it.", "timeout", "oom", "cpu", "output", "cancelled", "killed")),
    limits_hit=array("Quotas that refused something while it ran, sorted.", text("Name of a quota.")),
    stdout=text("Its output; head and tail of what is over 1 MiB. Bytes that are no UTF-8 are U+FFFD."),
    stderr=text("The same of stderr."),
    truncated=boolean("Some of the output was left out."),
    lingering=boolean("A process that it started lived on when it had ended."),
    start_error=or_null(text("Why it did not start.")),
    duration=number("Seconds from its start to its end."),
    cpu_time=number("CPU seconds of it and its children."),
    max_rss=integer("Bytes of memory of its largest process."),
)

SCHEMA = document("isandbox.run/1", "What became of the command.", RESULT)
