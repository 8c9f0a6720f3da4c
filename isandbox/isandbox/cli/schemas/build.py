"""Words to write a JSON Schema with, so that each field has its meaning beside it."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def document(name: str, about: str, /, *forms: Schema, **fields: Schema) -> Schema:
    """The object that a command prints, or what it prints when it fails. ``forms``: several records, of which it is one."""
    return {
        "$schema": DRAFT,
        "title": name,
        "description": about,
        "oneOf": [*(forms or (record(about, **fields),)), {"$ref": "#/$defs/failure"}],
        "$defs": {"failure": FAILURE},
    }


def record(about: str, optional: tuple[str, ...] = (), /, **fields: Schema) -> Schema:
    """An object with these keys, all of them there but the ``optional``."""
    required = [name for name in fields if name not in optional]
    return {"type": "object", "description": about, "properties": fields, "required": required}


def text(about: str, *words: str) -> Schema:
    """A string; with ``words`` one of them."""
    return {"type": "string", "description": about, **({"enum": list(words)} if words else {})}


def number(about: str) -> Schema:
    return {"type": "number", "description": about}


def integer(about: str) -> Schema:
    return {"type": "integer", "description": about}


def boolean(about: str) -> Schema:
    return {"type": "boolean", "description": about}


def array(about: str, of: Schema) -> Schema:
    return {"type": "array", "description": about, "items": of}


def mapping(about: str, to: Schema) -> Schema:
    """An object whose keys are names of something."""
    return {"type": "object", "description": about, "additionalProperties": to}


def or_null(schema: Schema) -> Schema:
    """The value, or null where there is none."""
    nullable = {**schema, "type": [schema["type"], "null"]}
    return {**nullable, "enum": [*schema["enum"], None]} if "enum" in schema else nullable


FAILURE = record(
    "What is printed instead when isandbox itself fails; the exit code is 125.",
    error=record(
        "The error.",
        code=text("The code of the error, as in docs/errors.md; os_error for one of the operating system."),
        message=text("What was wrong and what to do."),
    ),
)
