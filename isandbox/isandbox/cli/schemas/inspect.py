"""`isandbox inspect --json`."""

from __future__ import annotations

from isandbox.cli.schemas.build import Schema, array, document, integer, mapping, number, record, text
from isandbox.cli.schemas.ps import COMMAND, SANDBOX

_INSIDE: dict[str, Schema] = {
    "isolation": text("How strong.", "none", "unknown", "os", "container", "userkernel", "vm"),
    "workspace": text("Path of the workspace inside."),
    "quotas": mapping("Those that are set; sizes in bytes.", number("The limit.")),
    "layers": mapping("What holds.", text("enforced or absent, with more in brackets.")),
    "waived": array("Layers and quotas that it does without, sorted.", text("A name.")),
    "metrics": record(
        "What it uses now.",
        processes=integer("Processes."),
        cpu_time=number("CPU seconds of the processes alive now."),
        memory=integer("Resident bytes of the processes alive now."),
    ),
    "commands": array("Its background commands, oldest first.", record("One.", **COMMAND)),
}

SCHEMA = document(
    "isandbox.inspect/1",
    "One sandbox; what is only known inside is there when it can be reached.",
    record("One sandbox.", tuple(_INSIDE), **SANDBOX, **_INSIDE),
)
