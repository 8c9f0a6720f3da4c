"""What an id of a sandbox looks like: only such a one becomes a file name or a row."""

from __future__ import annotations

import re

_ID = re.compile(r"([a-z][a-z0-9_]{0,31})-[0-9a-f]{8,64}", re.ASCII)


def is_id(text: object) -> bool:
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def backend_of(id: str) -> str | None:
    """The backend that the id's prefix names; ``None`` for what is no id."""
    match = _ID.fullmatch(id)
    return None if match is None else match[1]
