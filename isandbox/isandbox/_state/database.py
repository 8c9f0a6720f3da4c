"""An SQLite file of ours: made, recognised, brought up to date, and left alone when it is anything else.

A connection lives as long as one operation: none is ever carried over a fork or into another thread, and nothing is
kept open between two sandboxes. The journal is a rollback journal and no write-ahead log: with connections that short a
log would be made, merged and removed each time, and a register without one is a single file that a reader need not write.
``sqlite3`` is imported with the first connection.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isandbox._state.directory import StateDirectory, failure
from isandbox._text import plain
from isandbox.errors import StateError

if TYPE_CHECKING:
    import sqlite3

_BUSY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Database:
    """``steps``: step n (from 1) brings a file of version n - 1 to version n, in a transaction with all that it lacks.

    ``application_id``: 32 bits that SQLite keeps in the header, by which a file is recognised as ours.
    """

    directory: StateDirectory
    name: str
    application_id: int
    steps: Sequence[Sequence[str]]

    @property
    def path(self) -> str:
        return f"{self.directory.path}/{self.name}"

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection in a transaction that only reads; ``None`` when the file was never made. Raises `StateError`."""
        if not self._check_file():
            yield None
            return
        with self._errors(), self._connected() as connection:
            connection.execute("BEGIN")
            if self._version(connection) < len(self.steps):
                connection.execute("COMMIT")
                self._migrate(connection)
                connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that excludes other writers, committed when the body ends without an error.

        Others wait for up to 10 s. Raises `StateError`; when it says that the register is in use, the same call may succeed later.
        """
        if not self._check_file():
            try:
                # Not opened: closing any descriptor of the file would drop the locks of this process's other connections.
                os.mknod(self.name, stat.S_IFREG | 0o600, dir_fd=self.directory.fd)
            except FileExistsError:
                pass
            except OSError as error:
                raise failure(self.path, error) from error
        with self._errors(), self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._upgrade(connection)
            yield connection
            connection.execute("COMMIT")

    def _check_file(self) -> bool:
        """Whether there is a file. Raises `StateError` for one that is not a file, or not ours alone."""
        try:
            status = os.stat(self.name, dir_fd=self.directory.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise failure(self.path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise self._unusable("not a file")
        if status.st_uid != os.geteuid() or status.st_nlink != 1 or status.st_mode & 0o077:
            raise self._unusable(
                f"not a file of ours alone (uid {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}, {status.st_nlink} names)"
            )
        return True

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        import sqlite3

        uri = f"file:/proc/self/fd/{self.directory.fd}/{self.name}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        connection.text_factory = _decoded
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = NORMAL")
            yield connection
        finally:
            connection.close()  # rolls back what was not committed

    def _version(self, connection: sqlite3.Connection) -> int:
        """Raises `StateError` for a file that is not ours, or newer than this isandbox."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if (application, version) == (0, 0) and not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            return 0  # made, and not yet filled
        if application != self.application_id or version < 1:
            raise self._unusable(f"a database of another program (application id {application})")
        if version > len(self.steps):
            raise StateError(
                f"{plain(self.path)}: of a newer isandbox (version {version}; this one knows up to {len(self.steps)}): "
                f"use that one, or set ISANDBOX_STATE_DIR to another directory"
            )
        return int(version)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        self._upgrade(connection)
        connection.execute("COMMIT")

    def _upgrade(self, connection: sqlite3.Connection) -> None:
        """In a writing transaction: another process may have been faster, so the version is read again in it."""
        version = self._version(connection)
        if version == len(self.steps):
            return
        for step in self.steps[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {self.application_id}")
        connection.execute(f"PRAGMA user_version = {len(self.steps)}")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """SQLite's errors, as ours."""
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: sqlite3.Error) -> StateError:
        name = str(getattr(error, "sqlite_errorname", ""))
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_FORMAT")):
            return self._unusable(f"damaged, truncated or not a database ({error})")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            busy = StateError(f"{plain(self.path)}: in use by another process for more than {_BUSY_SECONDS:g} s; try again")
            busy.retryable = True
            return busy
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_TRUNCATE")):
            full = StateError(
                f"{plain(self.path)}: no room left, or a limit on the size of files ({error}); free some and try again"
            )
            full.retryable = True
            return full
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
            return StateError(
                f"{plain(self.path)}: it cannot be written ({error}); make it and its directory writable, "
                f"or set ISANDBOX_STATE_DIR to another directory"
            )
        return StateError(f"{plain(self.path)}: {error}")

    def _unusable(self, what: str) -> StateError:
        return StateError(
            f"{plain(self.path)}: {what}. It was left as it is: move it away, and detached sandboxes that still run are unknown "
            f"until their lifetime ends"
        )


def _decoded(raw: bytes) -> str | bytes:
    """SQLite does not check what is in a TEXT: a value that is none stays bytes, and only its row is damaged."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
