"""What a host leaves with a detached sandbox's helper, so that another one can make a handle of it: JSON in a sealed file.

It holds the environment of commands, and so never is on disk. Whoever connects gets it from the helper, which code inside may
have taken over by then: nothing in it is believed that was not checked, and it names nothing that is removed or opened but
what the register names too.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from isandbox.errors import ConfigurationError, SandboxError
from isandbox.policy import Capabilities, Enforcement, Quotas
from isandbox.records import SandboxInfo
from isandbox_backends._shared.cgroups.place import CONTROLLERS
from isandbox_backends._shared.detached import reading
from isandbox_backends._shared.portable import anonymous_file, seal

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTE_VERSION = 1
NOTE_MOST = 16 << 20
_SEALS = ("F_SEAL_WRITE", "F_SEAL_GROW", "F_SEAL_SHRINK", "F_SEAL_SEAL")


class NoteError(SandboxError):
    """What a helper gave for a note is none."""


class NotSealedError(NoteError):
    """The host that makes the sandbox has not written the note to its end yet."""


@dataclass(frozen=True, slots=True)
class GroupNote:
    """Where the sandbox's control group is, and what it holds: see `cgroups.SandboxGroup`."""

    version: str
    parents: Mapping[str, str]
    name: str
    memory: int | None
    pids: int | None
    cpus: float | None


@dataclass(frozen=True, slots=True)
class Note:
    info: SandboxInfo
    env: Mapping[str, str]
    cwd: str
    output_quota: int | None = None
    command_owner: int | None = None
    group: GroupNote | None = None


def encode(note: Note) -> bytes:
    """Raises `ConfigurationError` for an environment or labels that make it longer than 16 MiB."""
    group = note.group
    content = {
        "note": NOTE_VERSION,
        "info": _info(note.info),
        "env": dict(note.env),
        "cwd": note.cwd,
        "output_quota": note.output_quota,
        "command_owner": note.command_owner,
        "group": None if group is None else {f.name: _plain(getattr(group, f.name)) for f in fields(group)},
    }
    raw = json.dumps(content, separators=(",", ":")).encode("ascii")
    if len(raw) > NOTE_MOST:
        raise ConfigurationError("env, labels: too long for a detached sandbox, which keeps them: 16 MiB in all")
    return raw


def _info(info: SandboxInfo) -> dict[str, object]:
    found = {f.name: _plain(getattr(info, f.name)) for f in fields(info)}
    capabilities = info.capabilities
    found["created_at"] = info.created_at.isoformat()
    found["capabilities"] = {
        **{f.name: _plain(getattr(capabilities, f.name)) for f in fields(capabilities)},
        "quotas": {name: _record(held) for name, held in capabilities.quotas.items()},
        "policies": {name: _record(held) for name, held in capabilities.policies.items()},
    }
    found["quotas"] = _record(info.quotas)
    return found


def _record(value: Enforcement | Quotas) -> dict[str, object]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if hasattr(value, "keys") else value


def decode(raw: bytes) -> Note:
    """Raises `NoteError` for what is none, whatever it is."""
    try:
        content = reading.record(json.loads(raw), Note, "note", beside=("note",))
        if content["note"] != NOTE_VERSION:
            raise NoteError(f"a note of version {content['note']!r}, not {NOTE_VERSION}")
        return Note(
            info=_read_info(content["info"]),
            env=reading.variables(content["env"]),
            cwd=reading.absolute(content["cwd"]),
            output_quota=reading.count(content["output_quota"]),
            command_owner=reading.count(content["command_owner"], 0xFFFF_FFFE),
            group=None if content["group"] is None else _read_group(content["group"]),
        )
    except NoteError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:  # what json and the records raise
        raise NoteError(f"the sandbox's helper gave a note that does not parse: {str(error)[:200]}") from error


def _read_info(value: object) -> SandboxInfo:
    found = reading.record(value, SandboxInfo, "info")
    capabilities = reading.record(found["capabilities"], Capabilities, "capabilities")
    created_at = datetime.fromisoformat(reading.text(found["created_at"], 64))
    if created_at.tzinfo is None:
        raise ValueError("a time without its zone")
    return SandboxInfo(
        id=reading.text(found["id"], 200),
        backend=reading.text(found["backend"], 64),
        isolation=reading.isolation(found["isolation"]),
        workspace=reading.absolute(found["workspace"]),
        created_at=created_at,
        capabilities=Capabilities(
            isolation=reading.isolation(capabilities["isolation"]),
            quotas=_enforcements(capabilities["quotas"]),
            policies=_enforcements(capabilities["policies"]),
            verbs=frozenset(reading.texts(capabilities["verbs"])),
            weaknesses=tuple(reading.texts(capabilities["weaknesses"])),
            protections=frozenset(reading.texts(capabilities["protections"])),
        ),
        quotas=Quotas(**reading.record(found["quotas"], Quotas, "quotas")),
        layers=reading.mapping(found["layers"]),
        waived=frozenset(reading.texts(found["waived"])),
        labels=reading.mapping(found["labels"], most=NOTE_MOST),
    )


def _enforcements(value: object) -> dict[str, Enforcement]:
    if not isinstance(value, dict) or len(value) > reading.MANY:
        raise TypeError("what is enforced is no mapping")
    return {reading.text(name): reading.enforcement(held) for name, held in value.items()}


def _read_group(value: object) -> GroupNote:
    found = reading.record(value, GroupNote, "group")
    version = reading.text(found["version"], 2)
    if version not in {"v1", "v2"}:
        raise ValueError(f"control groups of version {version!r}")
    group = GroupNote(
        version=version,
        parents={name: reading.absolute(path) for name, path in reading.mapping(found["parents"]).items()},
        name=reading.file_name(found["name"]),
        memory=reading.count(found["memory"]),
        pids=reading.count(found["pids"]),
        cpus=reading.number(found["cpus"]),
    )
    _check_controllers(group)
    return group


def _check_controllers(group: GroupNote) -> None:
    """Each limit has its controller, and there is at least one: whoever starts a command looks for both."""
    limits = {"memory": group.memory, "pids": group.pids, "cpu": group.cpus}
    needed = {name for name, limit in limits.items() if limit is not None}
    if not group.parents or not needed <= group.parents.keys() or not group.parents.keys() <= set(CONTROLLERS):
        raise ValueError("controllers that do not fit the limits")


def blank() -> int:
    """A file for a note that is written later; the helper gets it at its start, when half of the note is not known yet."""
    return anonymous_file("isandbox-note", b"")


def fill(fd: int, note: Note) -> None:
    """Write it and seal the file: nobody changes it any more. Raises `OSError` for want of memory."""
    view = memoryview(encode(note))
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], done)
    seal(fd)


def read(fd: int) -> Note:
    """The note in a descriptor that a helper has sent. Raises `NoteError`, `NotSealedError` for one that is still empty."""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or not 0 <= found.st_size <= NOTE_MOST:
            raise NoteError(f"the sandbox's helper gave no note, but a file of {found.st_size} bytes")
        held = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
        if held != sum(getattr(fcntl, name) for name in _SEALS):
            raise NotSealedError("the sandbox is not ready yet: its note is not complete")
        return decode(os.pread(fd, found.st_size, 0))
    except OSError as error:
        raise NoteError(f"the sandbox's helper gave a note that cannot be read: {error}") from error
