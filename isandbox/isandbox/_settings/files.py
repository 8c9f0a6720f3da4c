"""Reading ``isandbox.toml``: the project's, which a stranger may have written, and the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from isandbox._document import check_directory, check_way, read_text
from isandbox._settings.table import BY_KEY, Setting
from isandbox._settings.variables import FILE
from isandbox._text import plain, shown
from isandbox._toml import check_keys, check_type, parse
from isandbox.errors import ConfigurationError

LARGEST = 64 << 10
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Document:
    """One file: its path for messages, its checked values by key, and whether it is the user's own word."""

    where: str
    values: Mapping[str, object]
    trusted: bool
    path: str = ""
    """Of the user's own: where code inside must not write."""


def usual_files(user: str | None) -> tuple[Document, ...]:
    """The project's file, then the user's; those that are there.

    The project's is ``isandbox.toml`` in the current directory and nowhere above it: a regular file, no link.
    """
    found = []
    if os.path.lexists(FILE):
        where = plain(os.path.abspath(FILE))
        if (text := read_text(FILE, where, most=LARGEST, follow=False)) is not None:
            found.append(document(text, where, trusted=False))
    if user is not None and (text := read_text(user, plain(user), most=LARGEST, owned=True)) is not None:
        check_directory(os.path.dirname(user))
        check_way(user, plain(user))
        found.append(replace(document(text, plain(user), trusted=True), path=user))
    return tuple(found)


def named_file(path: str) -> Document:
    """The file that ``ISANDBOX_CONFIG`` names, in place of both. It must be there."""
    where = f"ISANDBOX_CONFIG: {plain(path)}"
    text = read_text(path, where, most=LARGEST, owned=True)
    if text is None:
        raise ConfigurationError(f"{where} does not exist; leave the variable empty to read no settings file")
    check_way(path, where)
    return replace(document(text, where, trusted=True), path=os.path.abspath(path))


def document(text: str, where: str, *, trusted: bool) -> Document:
    """What a file says. Raises `ConfigurationError` for a key that is not known, a value that is not valid, and, in one that is not
    the user's own, for a setting in which it has no say.
    """
    parsed = parse(text, where)
    check_keys(parsed, tuple(dict.fromkeys(key.partition(".")[0] for key in BY_KEY)), where)
    given: dict[str, object] = {}
    for name, value in parsed.items():
        if name in BY_KEY:
            given[name] = value
            continue
        check_type(value, dict, f"{where}: {name}", "a table")
        check_keys(value, [key.removeprefix(f"{name}.") for key in BY_KEY if key.startswith(f"{name}.")], where, f"{name}.")
        given.update((f"{name}.{inner}", of) for inner, of in value.items())
    return Document(where, {key: _value(BY_KEY[key], of, where, trusted) for key, of in given.items()}, trusted)


def _value(row: Setting, given: object, where: str, trusted: bool) -> object:
    if not trusted and row.project == "refused":
        raise ConfigurationError(
            f"{where}: {row.key}: not from a file of the current directory, which a stranger may have written; set it in the "
            "user's own file, or name this file with ISANDBOX_CONFIG"
        )
    try:
        return row.read(given)
    except ConfigurationError as error:
        text = shown(given)
        value = text if len(text) <= _MOST_SHOWN else f"a {type(given).__name__} of {len(text)} characters"
        raise ConfigurationError(f"{where}: {row.key}: {row.allowed}; not {plain(value)}") from error
