"""`isandbox ps --json`."""

from __future__ import annotations

from isandbox.cli.schemas.build import Schema, array, boolean, document, integer, mapping, or_null, record, text

_OFFSETS = {"stdout": integer("Bytes of stdout."), "stderr": integer("Bytes of stderr.")}

SANDBOX: dict[str, Schema] = {
    "id": text("Its id."),
    "type": text("Its backend."),
    "state": text("Whether it lives; elsewhere where that cannot be told from here.", "running", "ended", "elsewhere"),
    "detached": boolean("It stays without the process that made it."),
    "created_at": text("When, in ISO 8601."),
    "expires_at": or_null(text("When its lifetime ends, an estimate.")),
    "owner_pid": or_null(integer("The process that it ends with; null when it is detached.")),
    "labels": mapping("Its labels.", text("A value.")),
}

COMMAND: dict[str, Schema] = {
    "id": integer("Its number, for isandbox logs, kill -s and shell --attach."),
    "pid": or_null(integer("Its pid inside.")),
    "command": text("Its arguments, cut after 255 bytes."),
    "running": boolean("It has not ended."),
    "exit_code": or_null(integer("As isandbox run has it; null while it runs.")),
    "signal": or_null(integer("The signal that ended it.")),
    "fault": or_null(text("Why the sandbox ended it.", "timeout", "oom", "cpu", "output", "cancelled", "killed")),
    "started_at": text("When, in ISO 8601."),
    "terminal": boolean("It has a terminal; then all its output is stdout."),
    "written": record("How much it has written.", **_OFFSETS),
    "first": record("Where what is kept of it begins.", **_OFFSETS),
}

SCHEMA = document(
    "isandbox.ps/1",
    "The sandboxes, or the background commands of one.",
    record("Without ID.", sandboxes=array("Oldest first.", record("One sandbox.", **SANDBOX))),
    record("With ID.", commands=array("Oldest first.", record("One background command.", **COMMAND))),
)
