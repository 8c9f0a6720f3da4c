"""TOML, both ways, for files that a stranger may have written and with values that may be secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from isandbox._text import plain
from isandbox.errors import ConfigurationError

# Ours need three. The parser of the standard library recurses, and takes quadratic time for the parts of a dotted key.
_DEEPEST = 16
_MARK = re.compile(r"""["'#\[\]{}.,=\n]""")
# The rest of a string behind its opening quotes. Runs are possessive: a way back for each character takes a hundred times the text.
# Three closing quotes may have two more before them that belong to the text.
_REST = {
    '"': re.compile(r'(?:[^"\\\n]++|\\.)*"'),
    "'": re.compile(r"[^'\n]*+'"),
    '"""': re.compile(r'(?:[^"\\]++|\\.|"(?!""))*"{3,5}', re.DOTALL),
    "'''": re.compile(r"(?:[^']++|'(?!''))*'{3,5}"),
}
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z", re.ASCII)
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list", dict: "a table"}


def parse(text: str, where: str) -> dict[str, Any]:
    """The document. Raises `ConfigurationError` that begins with ``where`` and has the line, never a value."""
    _check_nesting(text, where)
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error)
    # Outside: newer parsers keep the whole document in their error.
    raise ConfigurationError(f"{where}: not valid TOML: {plain(reason)}")


def _check_nesting(text: str, where: str) -> None:
    """Refuse brackets and dotted keys that are nested too deep, in linear time. What ends in the middle of a string is left to the
    parser, which goes no further than that either.
    """
    depth = dots = at = 0
    while (found := _MARK.search(text, at)) is not None:
        mark, at = found[0], found.end()
        if mark in "\"'":
            quotes = mark * 3 if text.startswith(mark * 3, found.start()) else mark
            rest = _REST[quotes].match(text, found.start() + len(quotes))
            if rest is None:
                return
            at = rest.end()
        elif mark == "#":
            at = text.find("\n", at)
            if at < 0:
                return
        else:
            depth = max(0, depth + (mark in "[{") - (mark in "]}"))
            dots = dots + 1 if mark == "." else 0
        if depth > _DEEPEST or dots > _DEEPEST:
            line = text.count("\n", 0, found.start()) + 1
            raise ConfigurationError(f"{where}: line {line}: nested deeper than {_DEEPEST}")


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str, path: str = "") -> None:
    """Raises `ConfigurationError` for a key that is not known: its path, and the nearest one that is."""
    names = tuple(known)
    for name in table:
        if name not in names:
            raise ConfigurationError(f"{where}: {path}{plain(name)}: no such key; {nearest(name, names)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """``did you mean X?`` where one is near, else all that there are."""
    import difflib

    names = list(known)
    near = difflib.get_close_matches(name[:100], names, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"


def check_type(value: object, kinds: type | tuple[type, ...], where: str, allowed: str) -> None:
    """Raises `ConfigurationError` with what is allowed and the kind that was found, never the value itself."""
    accepted = kinds if isinstance(kinds, tuple) else (kinds,)
    if type(value) not in accepted:
        raise ConfigurationError(f"{where}: {allowed}, not {_WORDS.get(type(value), 'a date or time')}")


def text_literal(text: str, where: str) -> str:
    """A basic string. Raises `ConfigurationError` for text that is no Unicode, which TOML cannot hold; the text is not shown."""
    import json

    try:
        text.encode()
    except UnicodeEncodeError as error:
        position = error.start
    else:
        # JSON's escapes are TOML's too; it leaves DEL alone, which TOML does not.
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise ConfigurationError(f"{where}: character {position} is a lone surrogate, which TOML cannot hold")


def key_literal(name: str, where: str) -> str:
    return name if _BARE.match(name) else text_literal(name, where)
