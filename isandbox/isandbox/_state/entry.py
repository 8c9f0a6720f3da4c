"""One row of the register: a detached sandbox, as a record that is checked when it is read. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Literal

from isandbox._state.clock import Moment, elapsed
from isandbox._state.ids import backend_of
from isandbox._state.owner import OwnerRecord, parse_owner

State = Literal["starting", "running", "ended"]

# What a row may hold: more than anybody asks for.
_TEXT_MOST = 1 << 20
_SECONDS_MOST = 1e11  # three thousand years: a time of now with that added is still a date
PREFIX = "isandbox-"
_DIGEST = re.compile("[0-9a-f]{64}")
_BOOT = re.compile("([0-9a-f]{32})?")


@dataclass(frozen=True, slots=True)
class Resources:
    """Directories outside the sandbox that go with it: ``cgroups`` and ``scratch``, absolute paths."""

    cgroups: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A detached sandbox.

    ``creator`` is the process that made it, ``helper`` its first process, known once it runs. ``lifetime`` and
    ``idle_timeout``: seconds from ``created``, as last renewed, and of idleness. ``key`` and ``options``: digests of the
    idempotency key and of the options it was used with; the texts themselves are not kept. ``ended``: when that was seen.
    """

    id: str
    backend: str
    state: State
    created: Moment
    creator: OwnerRecord
    lifetime: float | None = None
    idle_timeout: float | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    resources: Resources = Resources()
    helper: OwnerRecord | None = None
    key: str | None = None
    options: str | None = None
    ended: Moment | None = None

    def expires_at(self, now: Moment) -> float | None:
        """When the lifetime ends, by the wall clock as it is now: an estimate. ``None`` without a lifetime, or when it has ended."""
        if self.lifetime is None or self.state == "ended":
            return None
        return now.wall + self.lifetime - elapsed(self.created, now)


COLUMNS = (
    *("id", "backend", "state", "created_wall", "created_boot", "created_up", "creator", "lifetime", "idle_timeout", "labels"),
    *("resources", "helper", "key", "options", "ended_wall", "ended_boot", "ended_up"),
)


def to_row(entry: Entry) -> tuple[object, ...]:
    """Values in the order of `COLUMNS`."""
    ended = (None, None, None) if entry.ended is None else (entry.ended.wall, entry.ended.boot, entry.ended.up)
    resources = {name.name: list(getattr(entry.resources, name.name)) for name in fields(Resources)}
    return (
        *(entry.id, entry.backend, entry.state, entry.created.wall, entry.created.boot, entry.created.up, str(entry.creator)),
        *(entry.lifetime, entry.idle_timeout, json.dumps(dict(entry.labels)), json.dumps(resources)),
        *(None if entry.helper is None else str(entry.helper), entry.key, entry.options, *ended),
    )


def from_row(row: Sequence[object]) -> Entry:
    """Raises `ValueError` with what is wrong, and no more of the value than that, for a row that `to_row` cannot have made."""
    raw = dict(zip(COLUMNS, row, strict=True))
    state = raw["state"]
    if backend_of(_text(raw, "id")) != raw["backend"]:
        raise ValueError("the id does not fit the backend")
    if state not in {"starting", "running", "ended"}:
        raise ValueError("unknown state")
    ended = None if raw["ended_wall"] is None else _moment(raw, "ended")
    if (ended is None) == (state == "ended"):
        raise ValueError("state and end do not fit")
    key, options = _digest(raw, "key"), _digest(raw, "options")
    if (key is None) != (options is None):
        raise ValueError("a key without options, or options without a key")
    return Entry(
        id=_text(raw, "id"),
        backend=_text(raw, "backend"),
        state=state,
        created=_moment(raw, "created"),
        creator=_owner(raw, "creator"),
        lifetime=_seconds(raw, "lifetime"),
        idle_timeout=_seconds(raw, "idle_timeout"),
        labels=_labels(raw),
        resources=_resources(raw),
        helper=None if raw["helper"] is None else _owner(raw, "helper"),
        key=key,
        options=options,
        ended=ended,
    )


def _text(raw: Mapping[str, object], name: str) -> str:
    value = raw[name]
    if not isinstance(value, str) or len(value) > _TEXT_MOST:
        raise ValueError(f"{name} is no text")
    return value


def _number(raw: Mapping[str, object], name: str) -> float:
    value = raw[name]
    if not isinstance(value, (int, float)) or not math.isfinite(value) or not 0 <= value <= _SECONDS_MOST:
        raise ValueError(f"{name} is no number of seconds")
    return float(value)


def _seconds(raw: Mapping[str, object], name: str) -> float | None:
    return None if raw[name] is None else _number(raw, name)


def _moment(raw: Mapping[str, object], name: str) -> Moment:
    boot = _text(raw, f"{name}_boot")
    if _BOOT.fullmatch(boot) is None:
        raise ValueError(f"{name}_boot is no boot id")
    return Moment(_number(raw, f"{name}_wall"), boot, _number(raw, f"{name}_up"))


def _owner(raw: Mapping[str, object], name: str) -> OwnerRecord:
    owner = parse_owner(_text(raw, name))
    if owner is None:
        raise ValueError(f"{name} is no owner record")
    return owner


def _digest(raw: Mapping[str, object], name: str) -> str | None:
    if raw[name] is None:
        return None
    value = _text(raw, name)
    if _DIGEST.fullmatch(value) is None:
        raise ValueError(f"{name} is no digest")
    return value


def _labels(raw: Mapping[str, object]) -> Mapping[str, str]:
    found = _json(raw, "labels")
    if not isinstance(found, dict) or not all(_is_text(text) for pair in found.items() for text in pair):
        raise ValueError("labels are no texts by name")
    return MappingProxyType(found)


def _is_text(value: object) -> bool:
    """Whether it can be written out: JSON may hold halves of surrogate pairs."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _resources(raw: Mapping[str, object]) -> Resources:
    found = _json(raw, "resources")
    names = {name.name for name in fields(Resources)}
    if not isinstance(found, dict) or set(found) != names:
        raise ValueError("resources have other names")
    return Resources(**{name: _paths(value) for name, value in found.items()})


def _paths(value: object) -> tuple[str, ...]:
    """Absolute, normal, and of a name that we give: whatever is removed because a row says so was once made by us."""
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        raise ValueError("resources are no lists of texts")
    for path in value:
        first, *parts = path.split("/")
        if first or not parts or {"", ".", ".."} & set(parts) or "\0" in path or not parts[-1].startswith(PREFIX):
            raise ValueError("a resource is no absolute path of a name of ours")
    return tuple(value)


def _json(raw: Mapping[str, object], name: str) -> object:
    text = _text(raw, name)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # its message would hold the text
        raise ValueError(f"{name} is no JSON") from None
