"""What a member of a tree or archive may be called, and where a link may point. Pure.

A path here is relative and normal: components joined with "/", none of them empty, "." or "..". Everything that reads or
writes a tree takes such paths only.
"""

from __future__ import annotations

import re
import sys
from typing import Literal, NoReturn

from isandbox.errors import TransferRefusedError
from isandbox.files.limits import Limits

Kind = Literal["file", "directory", "symlink"]

_NAME_MAX, _PATH_MAX = 255, 4096  # linux/limits.h
_DRIVE = re.compile(r"[A-Za-z]:")
# Bytes of memory for names and link targets, which are kept until everything is accepted. Not characters: one that is rare
# makes all of its text four times as large.
_NAMES_TOTAL = 256 << 20


def refuse(rule: str, member: str, why: str) -> NoReturn:
    shown = f"{member[:200]!r}: " if member else ""
    raise TransferRefusedError(f"refused as a whole: {shown}{why}", rule=rule, member=member)


def member_path(name: str, limits: Limits) -> str:
    """The path of an archive's member as everything here takes it; "" for the root itself. Raises `TransferRefusedError`.

    "./" in front, "." and doubled slashes are what archivers write; "..", an absolute name, a drive letter or a backslash
    is what attackers write, and means another thing on another system.
    """
    if not name:
        refuse("name", name, "a member without a name")
    if "\0" in name or "\\" in name:
        refuse("name", name, "a NUL or a backslash in a name")
    if name.startswith("/") or _DRIVE.match(name):
        refuse("path", name, "an absolute path")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        refuse("path", name, "'..' in a path")
    check_depth(parts, name, limits)
    path = "/".join(parts)
    if len(_bytes(path)) >= _PATH_MAX or any(len(_bytes(part)) > _NAME_MAX for part in parts):
        refuse("name", name, "a name that no file can have")
    return path


def check_depth(parts: list[str], name: str, limits: Limits) -> None:
    if len(parts) > limits.depth:
        refuse("depth", name, f"more than {limits.depth} levels")


def check_component(name: str, member: str) -> None:
    """A name that a directory listing gave. Raises `TransferRefusedError` for one that is a path."""
    if not name or name in (".", "..") or "/" in name or "\0" in name or len(_bytes(name)) > _NAME_MAX:
        refuse("name", member, "a name that no file can have")


def leads_out(path: str, target: str) -> str | None:
    """Why a link at ``path`` that says ``target`` may lead out of the tree, ``None`` when it cannot.

    It stays inside when it is relative and goes up only at its beginning, by no more levels than it is deep. A link's own
    directory is a real one; going up from there stays among real directories; every link on the way down obeys the same
    rule. A ".." after a name could follow a link first, and go up from wherever that leads.
    """
    if not target or "\0" in target or len(_bytes(target)) >= _PATH_MAX:
        return "a link to nothing"
    if target.startswith("/") or "\\" in target or _DRIVE.match(target):
        return "a link with an absolute path"
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    if ups > path.count("/"):
        return "a link out of the tree"
    if ".." in parts[ups:]:
        return "a link that goes up after it went down"
    return None


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        refuse("name", text, "a name that no file can have")


class NamesHeld:
    """How much memory the names of one tree take. Raises `TransferRefusedError`."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, *texts: str) -> None:
        self._bytes += sum(map(sys.getsizeof, texts))
        if self._bytes > _NAMES_TOTAL:
            refuse("members", "", f"more than {_NAMES_TOTAL} bytes of names")


class Table:
    """The names of one tree, so that none is harmful to another. Raises `TransferRefusedError`.

    A name is taken once (directories may come again), and whatever is above it is a directory, whichever came first. The
    directories that a path implies count like those that are written down.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kinds: dict[str, Kind] = {}
        self._names = NamesHeld()

    def add(self, path: str, kind: Kind) -> None:
        at = path.find("/")
        while at >= 0:
            if self._known(path[:at], "directory") != "directory":
                refuse("duplicate", path, "below something that is no directory")
            at = path.find("/", at + 1)
        if path not in self._kinds:
            self._known(path, kind)
        elif not kind == "directory" == self._kinds[path]:
            refuse("duplicate", path, "a name that is there already")

    def _known(self, path: str, kind: Kind) -> Kind:
        found = self._kinds.get(path)
        if found is not None:
            return found
        if len(self._kinds) >= self._limits.members:
            refuse("members", "", f"more than {self._limits.members} members")
        self._names.add(path)
        self._kinds[path] = kind
        return kind
