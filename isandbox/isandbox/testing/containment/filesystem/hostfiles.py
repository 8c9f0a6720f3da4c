"""What there is on the host, to compare with what there is inside."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable


def present(paths: Iterable[str]) -> list[str]:
    """Those that this host has. What it does not have, no sandbox can be said to hide."""
    return [path for path in paths if os.path.lexists(path)]


def number(path: str | int) -> str:
    """Device and inode, as the programs inside write them; ``-`` when there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return "-"
    return f"{status.st_dev} {status.st_ino}"


def identity(path: str) -> str:
    """As `identity` of the program inside says it; ``-`` for a hash that this user may not know."""
    try:
        status = os.stat(path)
    except OSError:
        return "- - -"
    try:
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read(65536)).hexdigest() if status.st_size else "-"
    except OSError:
        digest = "-"
    return f"{status.st_dev} {status.st_ino} {digest}"


def same_file(inside: str, outside: str) -> bool:
    """By device and inode, or by content: a sandbox may number its files anew."""
    return inside.split()[:2] == outside.split()[:2] or inside.split()[2] == outside.split()[2]
