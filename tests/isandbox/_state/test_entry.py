"""A row of the register: what was written is read, anything else is refused by name."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import StateError
from isandbox._state.clock import Moment
from isandbox._state.directory import StateDirectory
from isandbox._state.entry import COLUMNS, Entry, Resources, from_row, to_row
from isandbox._state.ids import backend_of, is_id
from isandbox._state.owner import OwnerRecord, ProcessName
from isandbox._state.register import Register

ID = "seccomp-" + "0af1" * 8
OWNER = OwnerRecord("ab" * 8, "12" * 16, ProcessName(4026531836, 100, 5000))
NOW = Moment(1_700_000_000.25, "12" * 16, 77.5)
ENTRY = Entry(
    ID,
    "seccomp",
    "ended",
    NOW,
    OWNER,
    lifetime=60.0,
    idle_timeout=5.0,
    labels={"a": "é"},
    resources=Resources(("/sys/fs/cgroup/isandbox-x",), ("/tmp/isandbox-y",)),
    helper=OWNER,
    key="a" * 64,
    options="b" * 64,
    ended=NOW,
)

seconds = st.floats(0, 1e11)
moments = st.builds(Moment, seconds, st.sampled_from(["", "a" * 32]), seconds)
texts = st.text(st.characters(exclude_categories=["Cs"]))
entries = st.builds(
    Entry,
    st.just(ID),
    st.just("seccomp"),
    st.sampled_from(["starting", "running"]),
    moments,
    st.just(OWNER),
    lifetime=st.none() | seconds,
    idle_timeout=st.none() | seconds,
    labels=st.dictionaries(texts, texts),
    helper=st.none() | st.just(OWNER),
)


@given(entries)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    """Through SQLite, which has types of its own."""
    with closing(sqlite3.connect(":memory:")) as connection:
        marks = ", ".join("?" * len(COLUMNS))
        assert from_row(connection.execute(f"SELECT {marks}", to_row(entry)).fetchone()) == entry


def test_every_field_is_kept() -> None:
    """None is left at its default by way of the row."""
    assert from_row(to_row(ENTRY)) == ENTRY


FORGED: list[tuple[str, object]] = [
    *(("id", value) for value in (None, 7, "", "local-" + "ab" * 16, "seccomp-../../x", "seccomp-" + "AB" * 16, b"\xff")),
    *(("backend", value) for value in (None, "local", "")),
    *(("state", value) for value in (None, "dead", 1, "running")),
    *(("created_wall", value) for value in (None, "now", float("inf"), -1.0, 1e300, 2e11)),
    *(("created_boot", value) for value in (None, "x", "A" * 32)),
    *(("created_up", value) for value in (None, float("nan"))),
    *(("creator", value) for value in (None, "", "1-2-3", "..1-0-3", "x" * 100)),
    *(("lifetime", value) for value in ("1", -5, float("inf"), 2e11)),
    *(("labels", value) for value in (None, "", "[]", '{"a": 1}', '{"a": "\\ud800"}', "[" * 100_000, b"\xff")),
    *(("resources", value) for value in (None, "{}", "[]", '{"cgroups": [], "scratch": [], "more": []}')),
    *(("helper", value) for value in ("", "..1-0-3", 5)),
    *(("key", value) for value in (None, "", "a" * 63, 5)),
    *(("options", value) for value in (None, "B" * 64)),
    *(("ended_wall", value) for value in (None, "x")),
]


@pytest.mark.parametrize(("column", "value"), FORGED, ids=range(len(FORGED)))
def test_a_forged_value_is_refused(column: str, value: object) -> None:
    """Each field is checked, and the message does not repeat what was in it."""
    row = list(to_row(ENTRY))
    row[COLUMNS.index(column)] = value
    with pytest.raises(ValueError, match=r"[a-z]") as caught:
        from_row(row)
    assert len(str(caught.value)) < 100


def test_times_of_a_row_are_dates() -> None:
    """The largest numbers that are read can be shown to people: no row keeps a list from being made."""
    now = Moment(4e9, "", 0.0)
    entry = from_row(to_row(replace(ENTRY, state="running", ended=None, created=replace(NOW, wall=1e11), lifetime=1e11)))
    ends = entry.expires_at(now)
    assert ends is not None
    assert [datetime.fromtimestamp(wall, UTC).year for wall in (entry.created.wall, ends)] == [5138, 5265]


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "isandbox-x", "/home/me", "/tmp/isandbox-x/..", "/tmp/isandbox-x/../../home", "/tmp/./isandbox-x"),
        *("//tmp/isandbox-x", "/tmp/isandbox-x/", "/tmp/isandbox-x/home", "/tmp/isandbox-\0", 7, None, ["/tmp/isandbox-x"]),
    ],
)
@pytest.mark.parametrize("kind", ["cgroups", "scratch"])
def test_a_row_never_names_a_directory_that_is_not_ours(kind: str, path: object) -> None:
    """Whatever is removed because a row says so has a name that isandbox gave."""
    row = list(to_row(ENTRY))
    row[COLUMNS.index("resources")] = json.dumps({"cgroups": [], "scratch": [], kind: [path]})
    with pytest.raises(ValueError, match="resource"):
        from_row(row)


def test_a_damaged_row_does_not_hide_the_others(state: StateDirectory) -> None:
    """It is an error for its own id; the list has the rest; and the row stays as it is until it is discarded."""
    register = Register(state)
    other = "local-" + "ab" * 16
    for name in (ID, other):
        register.begin(name)
    with closing(sqlite3.connect(Path(register.path))) as connection, connection:
        connection.execute("UPDATE sandboxes SET labels = CAST(X'FF' AS TEXT) WHERE id = ?", (ID,))
    for operation in (register.get, register.ended, register.running):
        with pytest.raises(StateError, match=f"the record of {ID} is damaged .labels is no text"):
            operation(ID)
    found = register.list()
    assert [entry.id for entry in found.entries] == [other]
    assert list(found.damaged) == [ID]
    assert register.ended(other)
    assert register.discard(ID)
    assert not register.list().damaged


@pytest.mark.parametrize("text", ["local-" + "0" * 8, "my_backend2-" + "f" * 64])
def test_what_is_an_id(text: str) -> None:
    """A backend's name and hexadecimal digits."""
    assert is_id(text)
    assert text.startswith(f"{backend_of(text)}-")


@pytest.mark.parametrize(
    "text",
    [
        *("", "-", ".", "..", "local", "local-", "-" + "0" * 32, "local-" + "0" * 7, "local-" + "0" * 65, "Local-" + "0" * 32),
        *("local-" + "0" * 32 + "\n", "local-" + "0" * 31 + "G", "../local-" + "0" * 32, "local/../x-" + "0" * 32, 7, None),
        *(".new-1-2-3-" + "0" * 16, "local-" + "\u0660" * 32),
    ],
)
def test_what_is_none(text: object) -> None:
    """Nothing with a slash, a dot or a name of ours for other things becomes a file name."""
    assert not is_id(text)


def test_when_it_expires() -> None:
    """By the wall clock as it is now: one that jumped since does not move the end."""
    entry = replace(ENTRY, state="running", ended=None)
    jumped = Moment(NOW.wall + 10_000, NOW.boot, NOW.up + 20)
    assert entry.expires_at(jumped) == jumped.wall + 40
    assert replace(entry, created=replace(NOW, wall=9e9)).expires_at(jumped) == jumped.wall + 40
    assert replace(entry, lifetime=None).expires_at(jumped) is None
    assert ENTRY.expires_at(jumped) is None
