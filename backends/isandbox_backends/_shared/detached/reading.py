"""Checks of single values that came from a peer that is not trusted. Each raises `TypeError` or `ValueError`. Pure."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args

from isandbox.policy import Enforcement, Isolation

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Entries of a mapping or a list of names, and characters of a text, where nothing else is said.
MANY = 4096
_LONG = 16_384
_COUNT_MOST = (1 << 63) - 1


def record(value: object, of: type[DataclassInstance], name: str, *, beside: tuple[str, ...] = ()) -> dict[str, Any]:
    """A mapping with exactly the fields of ``of``, and those ``beside`` them."""
    expected = {*(f.name for f in fields(of)), *beside}
    if not isinstance(value, dict) or value.keys() != expected:
        raise ValueError(f"{name} has other fields than {', '.join(sorted(expected))}")
    return value


def text(value: object, most: int = _LONG) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    if len(value) > most or "\0" in value:
        raise ValueError(f"a text of {len(value)} characters, of {most} at most and without NUL")
    value.encode("utf-8", "surrogateescape")  # JSON may hold halves of surrogate pairs, which cannot be written out
    return value


def texts(value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > MANY:
        raise TypeError("not a list of texts")
    return [text(item) for item in value]


def mapping(value: object, *, most: int = _LONG) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > MANY:
        raise TypeError("not a mapping of texts")
    return {text(name, most): text(held, most) for name, held in value.items()}


def variables(value: object) -> dict[str, str]:
    """An environment. As long as the kernel's own bound on it allows, and more."""
    if not isinstance(value, dict):
        raise TypeError("not an environment")
    found = {text(name, 16 << 20): text(held, 16 << 20) for name, held in value.items()}
    if any(not name or "=" in name for name in found):
        raise ValueError("a variable without a name, or with = in it")
    return found


def absolute(value: object) -> str:
    path = text(value)
    if not path.startswith("/") or ".." in path.split("/"):
        raise ValueError("not an absolute path")
    return path


def file_name(value: object) -> str:
    name = text(value, 255)
    if name in {"", ".", ".."} or "/" in name:
        raise ValueError("not the name of a file")
    return name


def count(value: object, most: int = _COUNT_MOST) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not a whole number")
    if not 0 <= value <= most:
        raise ValueError("a number out of its range")
    return value


def number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("not a number")
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def isolation(value: object) -> Isolation:
    for word in get_args(Isolation):
        if word == value:
            found: Isolation = word
            return found
    raise ValueError("an unknown isolation")


def enforcement(value: object) -> Enforcement:
    found = record(value, Enforcement, "what is enforced")
    if found["kind"] not in {"kernel", "watched", "unsupported"} or found["told"] not in {"", "counted", "looked", "exit"}:
        raise ValueError("an unknown kind of enforcement")
    return Enforcement(
        kind=found["kind"],
        note=text(found["note"]),
        period=number(found["period"]),
        instead=text(found["instead"]),
        told=found["told"],
    )
