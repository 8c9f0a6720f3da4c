"""The register of detached sandboxes: one row for each, from the moment when it is begun until a day after its end.

A row says what a sandbox is and what goes with it. Whether it is alive is never read from here: that is what the lock of its
directory says (`places`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from isandbox._state.clock import MACHINE, Clock, elapsed
from isandbox._state.database import Database
from isandbox._state.directory import StateDirectory
from isandbox._state.entry import COLUMNS, Entry, Resources, from_row, to_row
from isandbox._state.ids import backend_of
from isandbox._state.owner import OwnerRecord, current_owner, machine_of, owner_fate
from isandbox._text import plain
from isandbox.errors import ConfigurationError, StateError

if TYPE_CHECKING:
    import sqlite3

FILE = "register.db"
APPLICATION_ID = 0x69736278  # "isbx"
KEPT_SECONDS = 24 * 3600.0
STEPS = (
    (
        """CREATE TABLE sandboxes (
            id TEXT PRIMARY KEY, backend TEXT NOT NULL, state TEXT NOT NULL,
            created_wall REAL NOT NULL, created_boot TEXT NOT NULL, created_up REAL NOT NULL, creator TEXT NOT NULL,
            lifetime REAL, idle_timeout REAL, labels TEXT NOT NULL, resources TEXT NOT NULL, helper TEXT,
            key TEXT UNIQUE, options TEXT, ended_wall REAL, ended_boot TEXT, ended_up REAL
        ) WITHOUT ROWID""",
    ),
)
_ALL = ", ".join(COLUMNS)
_INSERT = f"INSERT INTO sandboxes ({_ALL}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - our own names only
_SELECT = f"SELECT {_ALL} FROM sandboxes"  # noqa: S608 - our own names only


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key with the options it is used with, as digests. Without the key nobody can guess options from theirs."""

    key: str
    options: str


def make_key(key: str, options: bytes) -> Key:
    """``options``: all that makes a sandbox what it is, the same bytes for the same options."""
    secret = key.encode("utf-8", "surrogatepass")
    return Key(hashlib.sha256(secret).hexdigest(), hmac.digest(secret, options, "sha256").hex())


@dataclass(frozen=True, slots=True)
class Listing:
    """``entries``: oldest first. ``damaged``: what could not be read, by id or what stands in its place."""

    entries: tuple[Entry, ...]
    damaged: Mapping[str, StateError]


class Register:
    """Operations are transactions; each opens the file and closes it. All raise `StateError` when the file cannot be used."""

    def __init__(self, directory: StateDirectory, clock: Clock = MACHINE) -> None:
        self._database = Database(directory, FILE, APPLICATION_ID, STEPS)
        self._clock = clock

    @property
    def path(self) -> str:
        return self._database.path

    def begin(
        self,
        id: str,
        *,
        creator: OwnerRecord | None = None,
        lifetime: float | None = None,
        idle_timeout: float | None = None,
        labels: Mapping[str, str] | None = None,
        resources: Resources | None = None,
        key: Key | None = None,
    ) -> Entry:
        """Enter a sandbox that is about to be made, and return its entry, "starting". ``creator``: this process when not given.

        **Key.** When another sandbox has it, that one's entry is returned instead, whatever its state, and nothing is entered:
        compare the ids. Of any number that begin at once with one key, one gets it. An entry whose creator died before the
        sandbox was running has lost its key: that sandbox never was. So has, after a day, one whose creator is in another pid
        namespace. Raises `ConfigurationError` when the one that has the key was made with other options.
        """
        backend = _backend(id)
        creator = current_owner() if creator is None else creator
        entry = Entry(
            id,
            backend,
            "starting",
            self._clock.now(),
            creator,
            lifetime,
            idle_timeout,
            dict(labels or {}),
            resources or Resources(),
        )
        if key is not None:
            entry = replace(entry, key=key.key, options=key.options)
        try:
            from_row(to_row(entry))  # what could not be read again is not written
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"a sandbox that cannot be registered: {error}") from error
        with self._database.writing() as connection:
            if key is not None:
                holder = self._one(connection, "key", key.key)
                if holder is not None and not self._never_was(holder):
                    return _same_options(holder, key)
                if holder is not None:
                    self._end(connection, holder)
            if self._one(connection, "id", id) is not None:
                raise StateError(f"{plain(self.path)}: there is a sandbox {id} already")
            connection.execute(_INSERT, to_row(entry))
        return entry

    def running(self, id: str, *, helper: OwnerRecord | None = None, resources: Resources | None = None) -> Entry:
        """The sandbox runs: ``helper`` and ``resources`` are known. Raises `StateError` when it was not begun or has ended."""
        with self._database.writing() as connection:
            entry = self._one(connection, "id", id)
            if entry is None or entry.state == "ended":
                raise StateError(f"{plain(self.path)}: {id} was {'not begun' if entry is None else 'ended'} before it ran")
            resources = entry.resources if resources is None else resources
            entry = replace(entry, state="running", helper=helper, resources=resources)
            self._write(connection, entry)
        return entry

    def renewed(self, id: str, seconds: float) -> Entry | None:
        """Its lifetime now ends ``seconds`` from now. The new entry; ``None`` when it is not there or has ended."""
        with self._database.writing() as connection:
            entry = self._one(connection, "id", id)
            if entry is None or entry.state == "ended":
                return None
            entry = replace(entry, lifetime=elapsed(entry.created, self._clock.now()) + seconds)
            self._write(connection, entry)
        return entry

    def ended(self, id: str) -> bool:
        """The sandbox has ended; one that was still starting gives its key back. True when the register did not know that before;
        an id that is not there is fine.
        """
        with self._database.writing() as connection:
            entry = self._one(connection, "id", id)
            if entry is None or entry.state == "ended":
                return False
            self._end(connection, entry)
        return True

    def discard(self, id: str) -> bool:
        """Forget the row of this id, damaged ones included, and with it its key; for a start that failed. True when it was there."""
        with self._database.writing() as connection:
            return connection.execute("DELETE FROM sandboxes WHERE id = ?", (id,)).rowcount > 0

    def get(self, id: str) -> Entry | None:
        """Raises `StateError` when the row is damaged."""
        with self._database.reading() as connection:
            return None if connection is None else self._one(connection, "id", id)

    def find(self, key: Key) -> Entry | None:
        """The sandbox that has this key. Raises `ConfigurationError` when it was made with other options."""
        with self._database.reading() as connection:
            holder = None if connection is None else self._one(connection, "key", key.key)
        return None if holder is None else _same_options(holder, key)

    def list(self) -> Listing:
        """Every row; a damaged one does not hide the others."""
        entries, damaged = [], {}
        with self._database.reading() as connection:
            rows = [] if connection is None else connection.execute(f"{_SELECT} ORDER BY created_wall, id").fetchall()
        for row in rows:
            try:
                entries.append(self._entry(row))
            except StateError as error:
                damaged[str(row[0])[:100]] = error
        return Listing(tuple(entries), damaged)

    def forget(self) -> tuple[str, ...]:
        """Remove what ended a day ago, and with it its key. Returns the ids."""
        now = self._clock.now()
        old = [entry.id for entry in self.list().entries if entry.ended and elapsed(entry.ended, now) >= KEPT_SECONDS]
        if old:
            with self._database.writing() as connection:
                connection.executemany("DELETE FROM sandboxes WHERE id = ? AND state = 'ended'", [(name,) for name in old])
        return tuple(old)

    def _never_was(self, entry: Entry) -> bool:
        if entry.state != "starting":
            return False
        here = current_owner()
        fate = owner_fate(entry.creator, here)
        if (
            fate == "elsewhere" and machine_of(entry.creator, here) == "here"
        ):  # a container that may be gone with its processes
            return elapsed(entry.created, self._clock.now()) >= KEPT_SECONDS
        return fate == "dead"

    def _end(self, connection: sqlite3.Connection, entry: Entry) -> None:
        if entry.state == "starting":  # it never was: its key is free
            entry = replace(entry, key=None, options=None)
        self._write(connection, replace(entry, state="ended", ended=self._clock.now()))

    @staticmethod
    def _write(connection: sqlite3.Connection, entry: Entry) -> None:
        row = to_row(entry)
        from_row(row)
        connection.execute("DELETE FROM sandboxes WHERE id = ?", (entry.id,))
        connection.execute(_INSERT, row)

    def _one(self, connection: sqlite3.Connection, column: str, value: str) -> Entry | None:
        row = connection.execute(f"{_SELECT} WHERE {column} = ?", (value,)).fetchone()
        return None if row is None else self._entry(row)

    def _entry(self, row: tuple[object, ...]) -> Entry:
        try:
            return from_row(row)
        except ValueError as error:
            shown = plain(str(row[0])[:100])
            raise StateError(
                f"{plain(self.path)}: the record of {shown} is damaged ({error}): something else has written to it. "
                f"It was left as it is; delete that row, or move the file away"
            ) from error


def _backend(id: str) -> str:
    backend = backend_of(id)
    if backend is None:
        raise StateError(f"{plain(str(id)[:100])} is no id of a sandbox")
    return backend


def _same_options(holder: Entry, key: Key) -> Entry:
    if holder.options != key.options:
        raise ConfigurationError(
            f"idempotency_key: it belongs to {holder.id}, which was made with other options; use another key, or the same options"
        )
    return holder
