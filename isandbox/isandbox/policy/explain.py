"""What a policy lets a command do, and by which of its lines. Pure: nothing is looked up, on no host and in no sandbox."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

from isandbox._text import plain, shown
from isandbox.errors import ConfigurationError
from isandbox.policy.mounts import check_path

if TYPE_CHECKING:
    from isandbox.policy.policy import Policy

Operation = Literal["read", "write", "connect"]
WORKSPACE = "/workspace"
_Parts = tuple[re.Pattern[str] | None, ...]
_PORT = re.compile(r"[0-9]{1,5}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Explanation:
    """``allowed``: ``None`` when no line of the policy decides, so that the backend does. ``by``: the line that decides, as it stands
    in a file (``mounts[0]``, ``workspace.deny[1]``, ``network``), empty when none does. ``reason``: a sentence for people.
    """

    allowed: bool | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Place:
    """One directory of the host that is visible inside. ``source`` is empty for the workspace that goes with the sandbox."""

    line: str
    target: str
    source: str
    writable: bool
    mode: str


def explain(policy: Policy, operation: Operation, target: str) -> Explanation:
    """`Policy.explain`."""
    if operation not in get_args(Operation):
        raise ConfigurationError(f"explain: one of {', '.join(get_args(Operation))}, not {shown(operation)}")
    if operation == "connect":
        return _connect(policy, target)
    return _file(policy, operation, os.path.normpath(os.path.join(WORKSPACE, check_path(target, "explain"))))


def _file(policy: Policy, operation: Operation, path: str) -> Explanation:
    place = max((p for p in _places(policy) if within(path, p.target)), key=lambda p: len(p.target), default=None)
    if place is None:
        return Explanation(None, "", f"no line shows {plain(path)}; what the backend itself has there decides")
    if place.source and (denied := _denied(policy, place, _on_host(place, path))) is not None:
        return _unless_waived(policy, "workspace.deny", denied, f"{plain(path)} is denied")
    if operation == "write" and not place.writable:
        name = "workspace.ro" if place.line == "workspace" else "mounts"
        return _unless_waived(policy, name, f"{place.line}.mode", f"{plain(place.target)} is read-only")
    shows = f"{plain(place.source)} at {plain(place.target)}, {place.mode}" if place.source else "a workspace of its own"
    return Explanation(True, place.line, f"it is in {shows}; the host's own permissions still count")


def rewritable_by(policy: Policy, path: str) -> str:
    """The line by which code inside can write to this path of the host; empty when none lets it. All paths are real ones.

    What a place of its own, a copy or an overlay has of it does not count: nothing of that reaches the host.
    """
    for place in _places(policy):
        if place.source and place.writable and place.mode == "rw" and within(path, place.source):
            inside = os.path.normpath(os.path.join(place.target, os.path.relpath(path, place.source)))
            if _file(policy, "write", inside).allowed is not False:
                return place.line
    return ""


def _places(policy: Policy) -> Iterator[_Place]:
    own = policy.workspace
    if own is None:
        yield _Place("workspace", WORKSPACE, "", True, "rw")
    else:
        yield _Place("workspace", WORKSPACE, os.path.normpath(own.path), own.mode != "ro", own.mode)
    for number, mount in enumerate(policy.mounts):
        yield _Place(f"mounts[{number}]", mount.target, os.path.normpath(mount.source), mount.mode == "rw", mount.mode)


def _on_host(place: _Place, path: str) -> str:
    return os.path.normpath(os.path.join(place.source, os.path.relpath(path, place.target)))


def _denied(policy: Policy, place: _Place, path: str) -> str | None:
    """The line that denies this path of the host, if one does: also where a mount shows the same tree, unless the mount is of the
    denied place itself.
    """
    own = policy.workspace
    if own is None or not own.deny:
        return None
    top = os.path.normpath(own.path)
    if not within(path, top):
        return None
    relative = os.path.relpath(path, top)
    mounted = os.path.relpath(place.source, top) if within(place.source, top) else "."
    for number, pattern in enumerate(own.deny):
        if _matches(pattern, relative) and not _matches(pattern, mounted):
            return f"workspace.deny[{number}]"
    return None


def _matches(pattern: str, path: str) -> bool:
    """Whether the place, or one that it is in, is what the pattern names. In time that is no more than the product of their lengths:
    pattern and path may both be a stranger's.

    ``*`` and ``?`` stay within a name, ``**`` is any number of directories, at the end all that is below; anything else is itself.
    """
    if path == ".":
        return False
    parts = _parts(pattern)
    reached = _onward(parts, {0})
    for name in path.split("/"):
        reached = _onward(parts, {after for at in reached for after in _after(parts, at, name)})
        if len(parts) in reached:
            return True
    return False


def _onward(parts: _Parts, reached: set[int]) -> set[int]:
    """With where one may be as well: ``**`` is no directory, too, but not at the end."""
    return reached | {at + 1 for at in reached if at < len(parts) - 1 and parts[at] is None}


def _after(parts: _Parts, at: int, name: str) -> Iterator[int]:
    """Where in the pattern one may be after a name, from ``at``."""
    part = parts[at]
    if part is None:
        yield at + 1 if at == len(parts) - 1 else at
    elif part.match(name):
        yield at + 1


@lru_cache(maxsize=256)
def _parts(pattern: str) -> _Parts:
    """An expression for each name, ``None`` for ``**``, of which two say no more than one."""
    names = os.path.normpath(pattern).split("/")
    kept = (name for at, name in enumerate(names) if name != "**" or names[at - 1 : at] != ["**"])
    return tuple(None if name == "**" else _expression(name) for name in kept)


def _expression(name: str) -> re.Pattern[str]:
    """What stands between two stars is taken where it comes first, and never again: nothing later fits better."""
    first, *others = ("".join("." if char == "?" else re.escape(char) for char in piece) for piece in re.split(r"\*+", name))
    if others:
        first += "".join(f"(?>.*?{piece})" for piece in others[:-1]) + f".*{others[-1]}"
    return re.compile(first + r"\Z", re.DOTALL)


def _connect(policy: Policy, target: str) -> Explanation:
    if not isinstance(target, str) or not target.strip():
        raise ConfigurationError(f"explain: a host, or host:port, not {shown(target)}")
    if policy.network is None:
        return Explanation(
            None, "", "no line says anything of the network; the backend's default, none where it isolates, decides"
        )
    host, port = split_host(target)
    for number, line in enumerate(policy.network):
        of_host, of_port = split_host(line)
        if of_host == host and of_port in (None, port):
            return Explanation(True, f"network[{number}]", f"{plain(line)} is listed")
    said = "hosts" if policy.network else "none"
    return _unless_waived(policy, f"network.{said}", "network", f"{plain(target)} is not listed")


def split_host(text: str) -> tuple[str, str | None]:
    """Host in lower case without its root dot, and the port when there is one; an IPv6 address with a port has brackets."""
    text = text.strip().lower()
    host, colon, port = text.rpartition(":")
    if not (colon and _PORT.match(port) and ((host.startswith("[") and host.endswith("]")) or ":" not in host)):
        host, port = text, ""
    return host.strip("[]").removesuffix("."), port or None


def _unless_waived(policy: Policy, name: str, by: str, reason: str) -> Explanation:
    if name in policy.waive:
        return Explanation(None, by, f"{reason}, but waive lets {name} be missing: the backend decides")
    return Explanation(False, by, reason)


def within(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top.rstrip('/')}/")
