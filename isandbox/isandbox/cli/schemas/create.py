"""`isandbox create --json`."""

from __future__ import annotations

from isandbox.cli.schemas.build import array, document, mapping, number, or_null, text

SCHEMA = document(
    "isandbox.create/1",
    "The sandbox that was made, or that was made before under the same key.",
    id=text("Its id."),
    type=text("Its backend."),
    isolation=text("How strong.", "none", "unknown", "os", "container", "userkernel", "vm"),
    workspace=text("Path of the workspace inside."),
    created_at=text("When, in ISO 8601."),
    lifetime=number("Seconds it was given."),
    idle_timeout=or_null(number("Seconds without use after which it ends.")),
    labels=mapping("Its labels.", text("A value.")),
    waived=array("Layers and quotas that it does without, sorted.", text("A name.")),
)
