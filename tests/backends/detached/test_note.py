"""The note that a connecting host gets from a helper which may be anybody's by then."""

from __future__ import annotations

import copy
import fcntl
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox.errors import ConfigurationError
from isandbox.policy import KERNEL, Capabilities, Quotas, unsupported
from isandbox.records import SandboxInfo
from isandbox_backends._shared.detached import note
from isandbox_backends._shared.detached.note import GroupNote, Note, NoteError
from isandbox_backends._shared.portable import anonymous_file

NOTE = Note(
    info=SandboxInfo(
        id="seccomp-" + "0" * 32,
        backend="seccomp",
        isolation="os",
        workspace="/workspace",
        created_at=datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
        capabilities=Capabilities("os", {"memory": KERNEL, "disk": unsupported("leave it out")}, verbs=frozenset({"detach"})),
        quotas=Quotas(memory="64MiB", cpus=0.5),
        layers={"seccomp": "enforced"},
        waived=frozenset({"disk"}),
        labels={"name": "ä\udc80"},
    ),
    env={"PATH": "/bin", "RAW": "\udcff\n"},
    cwd="/workspace",
    output_quota=1024,
    command_owner=200_000,
    group=GroupNote(
        "v2", dict.fromkeys(("memory", "pids", "cpu"), "/sys/fs/cgroup/user.slice"), "isandbox-seccomp-0", 64 << 20, 256, 0.5
    ),
)
CONTENT = json.loads(note.encode(NOTE))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a tree of JSON."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def changed(path: tuple[Any, ...], to: object) -> bytes:
    content = copy.deepcopy(CONTENT)
    if not path:
        return json.dumps(to).encode()
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return json.dumps(content).encode()


PLACES = list(places(CONTENT))


def test_a_note_comes_back_as_it_was() -> None:
    """Whoever connects has the same info, environment, quotas and group as whoever made the sandbox."""
    assert note.decode(note.encode(NOTE)) == NOTE


@given(
    st.sampled_from(PLACES),
    st.sampled_from([None, True, -1, 1 << 80, 1e308, "", "..", "/../etc", "a" * 70_000, [], {}, [[]], {"a": 1}]),
)
def test_anything_in_any_place(path: tuple[Any, ...], value: object) -> None:
    """A value that does not belong there is a NoteError, or a note of the right types: nothing else comes out."""
    try:
        found = note.decode(changed(path, value))
    except NoteError:
        return
    assert isinstance(found.info, SandboxInfo)
    assert all(isinstance(name, str) and isinstance(held, str) for name, held in {**found.env, **found.info.labels}.items())
    assert found.cwd.startswith("/")


@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    """What is no JSON, or not that one, is a NoteError."""
    with pytest.raises(NoteError):
        note.decode(raw)


@pytest.mark.parametrize(
    "raw",
    [b"[" * 100_000, b'{"note":' + b"9" * 10_000 + b"}", b"NaN", b'{"note": 1, "note": 2}', changed(("note",), 2)],
)
def test_what_parsers_stumble_over(raw: bytes) -> None:
    """Depth, numbers of thousands of digits and another version are refused like everything else."""
    with pytest.raises(NoteError):
        note.decode(raw)


@pytest.mark.parametrize(
    "group",
    [
        {"parents": {}, "memory": None, "pids": None, "cpus": None},
        {"parents": {"pids": "/sys/fs/cgroup"}},
        {"parents": dict.fromkeys(("memory", "pids", "cpu", "more"), "/sys/fs/cgroup")},
    ],
)
def test_groups_that_nobody_made(group: dict[str, Any]) -> None:
    """Limits without their controllers, or controllers that there are not, would fail at the first command, not here."""
    assert note.decode(changed(("group",), CONTENT["group"])).group == NOTE.group
    with pytest.raises(NoteError, match="controllers"):
        note.decode(changed(("group",), CONTENT["group"] | group))


@pytest.mark.parametrize("path", [("cwd",), ("info", "workspace"), ("env", "PATH")])
def test_half_a_character(path: tuple[str, ...]) -> None:
    """Text that could be written to no file, terminal or helper is refused; bytes that are no UTF-8 are not."""
    assert note.decode(changed(path, "/\udc80"))
    with pytest.raises(NoteError):
        note.decode(changed(path, "/\ud800"))


def test_too_long_an_environment() -> None:
    """What would not be read back is not written."""
    with pytest.raises(ConfigurationError, match="16 MiB"):
        note.encode(Note(NOTE.info, {"A": "\x01" * (4 << 20)}, "/"))


def read(fd: int) -> Note:
    try:
        return note.read(fd)
    finally:
        os.close(fd)


def test_a_note_is_read_when_it_is_sealed() -> None:
    """Half a note is none; a complete one can be read, by offset, and nobody changes it any more."""
    fd = note.blank()
    with pytest.raises(note.NotSealedError):
        note.read(fd)
    note.fill(fd, NOTE)
    with pytest.raises(PermissionError):
        os.pwrite(fd, b"x", 0)
    assert note.read(fd) == NOTE
    assert read(fd) == NOTE


def test_other_descriptors_than_a_note() -> None:
    """A pipe, a device, a file on disk and a file that is not sealed are refused before anything is read."""
    ours, theirs = os.pipe()
    os.close(theirs)
    with pytest.raises(NoteError):
        read(ours)
    with pytest.raises(NoteError):
        read(os.open("/dev/zero", os.O_RDONLY))
    with pytest.raises(NoteError):
        read(os.open(__file__, os.O_RDONLY))
    with pytest.raises(NoteError):
        read(anonymous_file("isandbox-note", note.encode(NOTE)))
    fd = anonymous_file("isandbox-note", b"")
    os.ftruncate(fd, note.NOTE_MOST + 1)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    with pytest.raises(NoteError):
        read(fd)
