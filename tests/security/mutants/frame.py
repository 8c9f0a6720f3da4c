"""A mutant is the product with one mechanism altered, for one test. The product itself has no switch for that: here the plan
is edited after it was compiled, a function of the host's side is replaced, or a copy of the helper's sources is altered and
compiled.

A mutant is a broken sandbox. What runs in it is only probes that keep to the rules of `isandbox.testing.containment`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from isandbox_backends._shared.helper import machine
from isandbox_backends._shared.plan import ModeRecord, Record, Seccomp, Sysctl
from isandbox_backends.seccomp.syscalls import ARCHES

Edit = Callable[[list[Record]], list[Record]]
Change = tuple[str | re.Pattern[str], str]
"""A text, or an expression that finds it, and what stands there instead."""
Replacements = Mapping[str, Sequence[Change]]
Patch = tuple[str, Callable[[Any], Any]]
"""``module:attribute``, and from what stands there to what the mutant has in its place."""


@dataclass(frozen=True)
class Mutant:
    """``name`` says what is missing. ``who``: root's sandboxes or an ordinary user's only."""

    name: str
    edits: tuple[Edit, ...] = ()
    source: Replacements = field(default_factory=dict)
    patches: tuple[Patch, ...] = ()
    who: Literal["both", "root", "user"] = "both"


def together(*mutants: Mutant) -> Mutant:
    """All of them in one sandbox."""
    source: dict[str, list[Change]] = {}
    for mutant in mutants:
        for name, changes in mutant.source.items():
            source.setdefault(name, []).extend(change for change in changes if change not in source.get(name, []))
    return Mutant(
        name=" + ".join(mutant.name for mutant in mutants),
        edits=tuple(edit for mutant in mutants for edit in mutant.edits),
        source=source,
        patches=tuple(patch for mutant in mutants for patch in mutant.patches),
    )


def drop(kind: type, **values: Any) -> Edit:
    """Without the records of a kind that have these values."""
    return lambda records: [record for record in records if not _is(record, kind, values)]


def change(kind: type, fields: Mapping[str, Any], **values: Any) -> Edit:
    """Other values in some fields; a function gets the old value."""

    def altered(record: Any) -> Any:
        return replace(record, **{k: v(getattr(record, k)) if callable(v) else v for k, v in fields.items()})

    return lambda records: [altered(record) if _is(record, kind, values) else record for record in records]


def add(*more: Record) -> Edit:
    """At the end, where mounts cover what is there."""
    return lambda records: [*records, *more]


def _is(record: Record, kind: type, values: Mapping[str, Any]) -> bool:
    return isinstance(record, kind) and all(getattr(record, name) == value for name, value in values.items())


def safe(records: Sequence[Record]) -> None:
    """What no mutant may be: its helper would write to the host's own settings. Raises `AssertionError`."""
    for record in records:
        if isinstance(record, ModeRecord) and not record.clone_flags & NEWUSER:
            assert not any(isinstance(other, Sysctl) for other in records), "the host's sysctls would be set"
            assert record.clone_flags & NEWNS, "the host's mounts would be changed"


NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000

_LOAD, _AND, _EQUAL, _GREATER, _BITS, _RETURN, _JUMP = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06, 0x05
_ALLOW = 0x7FFF0000
Step = tuple[int, int, int, int]


def passing(*names: str, when: Sequence[tuple[int, str, int]] = ()) -> Edit:
    """The filter lets these calls through before it looks any further. ``when``: (argument, ``==`` or ``&``, value), all of
    which must hold. What is not a call of this machine is left out.
    """
    numbers = ARCHES[machine()].numbers
    wanted = [numbers[name] for name in names if name in numbers]
    conditions: list[Step] = []
    for index, (argument, test, value) in enumerate(when):
        rest = 2 * (len(when) - index - 1) + 1  # over the other conditions and the return
        op = _EQUAL if test == "==" else _BITS
        conditions += [(_LOAD, 0, 0, 16 + 8 * argument), (op, 0, rest, value)]
    found = [*conditions, (_RETURN, 0, 0, _ALLOW)]
    code: list[Step] = [(_LOAD, 0, 0, 0)]
    for number in wanted:
        code += [(_EQUAL, 0, len(found) + 1, number), *found, (_LOAD, 0, 0, 0)]
    return _before_the_filter(code) if wanted else lambda records: records


def passing_above(number: int) -> Edit:
    """Numbers past the last that was looked at go through."""
    return _before_the_filter([(_LOAD, 0, 0, 0), (_GREATER, 0, 1, number), (_RETURN, 0, 0, _ALLOW)])


def passing_other_architectures() -> Edit:
    audit = ARCHES[machine()].audit
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _ALLOW)]
    return lambda records: [_prefixed(record, code) for record in records]


def passing_everything() -> Edit:
    return change(Seccomp, {"program": struct.pack("<HBBI", _RETURN, 0, 0, _ALLOW)})


def _before_the_filter(code: Sequence[Step]) -> Edit:
    """Only for calls of this architecture: a number means another call on another one."""
    audit = ARCHES[machine()].audit
    guarded = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, audit), (_JUMP, 0, 0, len(code)), *code]
    return lambda records: [_prefixed(record, guarded) for record in records]


def _prefixed(record: Record, code: Sequence[Step]) -> Record:
    if not isinstance(record, Seccomp):
        return record
    return Seccomp(b"".join(struct.pack("<HBBI", *step) for step in code) + record.program)
