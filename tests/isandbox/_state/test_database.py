"""The SQLite file: ours is brought up to date, anything else is left as it is."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from isandbox import StateError
from isandbox._state.database import Database
from isandbox._state.directory import StateDirectory

APPLICATION = 0x1234
FIRST = ("CREATE TABLE things (name TEXT PRIMARY KEY)", "INSERT INTO things VALUES ('from the first step')")
SECOND = ("ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 7",)


def database(state: StateDirectory, *steps: tuple[str, ...]) -> Database:
    return Database(state, "things.db", APPLICATION, steps or (FIRST,))


def fill(state: StateDirectory, rows: int = 1) -> Path:
    with database(state).writing() as connection:
        connection.executemany("INSERT INTO things VALUES (?)", [(f"{number:0100}",) for number in range(rows)])
    return Path(state.path) / "things.db"


def rows(of: Database) -> list[tuple[object, ...]]:
    with of.reading() as connection:
        return [] if connection is None else connection.execute("SELECT * FROM things ORDER BY rowid").fetchall()


def test_it_is_made_by_the_first_writer_and_not_by_a_reader(state: StateDirectory) -> None:
    """0600, whatever the umask; with nothing beside it once it is written."""
    assert rows(database(state)) == []
    assert os.listdir(state.fd) == []
    before = os.umask(0)
    try:
        path = fill(state)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(state.fd) == ["things.db"]
    assert len(rows(database(state))) == 2


@pytest.mark.parametrize("opened", ["reading", "writing"])
def test_an_older_one_is_brought_up_to_date(state: StateDirectory, opened: str) -> None:
    """The steps that it lacks, in order, each once, by whoever opens it first; its rows stay."""
    fill(state)
    newer = database(state, FIRST, SECOND)
    for _ in range(2):
        with getattr(newer, opened)() as connection:
            assert connection.execute("SELECT size FROM things").fetchall() == [(7,), (7,)]
    with newer.reading() as connection:
        assert connection is not None
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_step_that_fails_leaves_the_version_before(state: StateDirectory) -> None:
    """Steps are one transaction: half of them never happened."""
    fill(state)
    with pytest.raises(StateError, match="no such table"), database(state, FIRST, SECOND, ("DROP TABLE missing",)).writing():
        pass
    assert rows(database(state)) == [("from the first step",), (f"{0:0100}",)]


def test_what_fails_in_the_body_is_not_written(state: StateDirectory) -> None:
    """A transaction whose body raises leaves no trace of it."""
    fill(state)
    with pytest.raises(StateError, match="syntax error"), database(state).writing() as connection:
        connection.execute("DELETE FROM things").connection.execute("nonsense")
    assert len(rows(database(state))) == 2


def another_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.execute("PRAGMA application_id = 99")
    path.chmod(0o600)


def without_an_id(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    path.chmod(0o600)


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")


def cut(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (path.stat().st_size - 100))


def without_our_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE things")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        pytest.param(another_program, "a database of another program", id="another program's"),
        pytest.param(without_an_id, "a database of another program", id="one without an application id"),
        pytest.param(newer, r"of a newer isandbox \(version 7; this one knows up to 1\)", id="newer"),
        pytest.param(cut(8192), "damaged, truncated", id="truncated to two pages"),
        pytest.param(cut(4096), "damaged, truncated", id="truncated to a page"),
        pytest.param(cut(1000), "damaged, truncated", id="truncated to less than a page"),
        pytest.param(cut(10), "damaged, truncated", id="truncated to a few bytes"),
        pytest.param(overwritten, "damaged, truncated", id="overwritten behind its header"),
        pytest.param(lambda path: path.write_bytes(b"garbage " * 4096), "damaged, truncated", id="garbage"),
        pytest.param(without_our_table, "no such table", id="without our table"),
    ],
)
@pytest.mark.parametrize("opened", ["reading", "writing"])
def test_what_is_not_ours_is_left_as_it_is(
    state: StateDirectory, spoil: Callable[[Path], None], told: str, opened: str
) -> None:
    """A named error with the path; and not a byte of the file has changed."""
    path = fill(state, rows=500)
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(StateError, match=told) as caught, getattr(database(state), opened)() as connection:
        connection.execute("SELECT name FROM things ORDER BY name DESC").fetchall()
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert os.listdir(state.fd) == ["things.db"]


def test_what_is_no_file_of_ours_alone(state: StateDirectory, tmp_path: Path) -> None:
    """A directory, a link, a fifo or a file with a second name or open to others in its place is refused and stays."""
    path = Path(state.path) / "things.db"
    theirs = tmp_path / "theirs"
    theirs.write_text("")

    def linked() -> None:
        os.link(theirs, path)
        path.chmod(0o600)

    def open_to_others() -> None:
        path.touch()
        path.chmod(0o644)

    for place in (path.mkdir, lambda: path.symlink_to(theirs), lambda: os.mkfifo(path, 0o600), linked, open_to_others):
        place()
        for opened in (database(state).reading, database(state).writing):
            with pytest.raises(StateError, match="not a file"), opened():
                pass
        assert os.path.lexists(path)
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    assert theirs.read_text() == ""


def test_an_empty_file_is_one_that_was_never_filled(state: StateDirectory) -> None:
    """Its maker may have been killed between making and filling it: nothing is lost by doing so now."""
    (Path(state.path) / "things.db").touch(mode=0o600)
    assert rows(database(state)) == [("from the first step",)]


def test_a_value_that_is_no_text_does_not_stop_the_reader(state: StateDirectory) -> None:
    """SQLite takes any bytes for a text: what is no UTF-8 comes as bytes, and its row only."""
    with database(state).writing() as connection:
        connection.execute("INSERT INTO things VALUES (CAST(X'FF6162' AS TEXT))")
    assert rows(database(state)) == [("from the first step",), (b"\xffab",)]


def test_one_that_stays_in_use_says_that_it_may_be_tried_again(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers wait for each other for a while; then it is an error that names the file and is retryable."""
    monkeypatch.setattr("isandbox._state.database._BUSY_SECONDS", 0.1)
    with (
        database(state).writing() as connection,
        pytest.raises(StateError, match="in use by another process") as caught,
        database(state).writing(),
    ):
        pass
    assert caught.value.retryable
    connection.close()


def test_no_operation_of_a_process_drops_the_lock_of_another_one_of_it(state: StateDirectory) -> None:
    """The kernel drops a process's locks on a file when any of its descriptors of that file is closed: none is but SQLite's own."""
    fill(state)
    program = """
import sys
from isandbox import StateError
from isandbox._state import database
from isandbox._state.directory import StateDirectory
database._BUSY_SECONDS = 0.1
try:
    with database.Database(StateDirectory.open(sys.argv[1]), "things.db", int(sys.argv[2]), [()]).writing():
        print("written")
except StateError as error:
    print("in use" in str(error))
"""
    command = [sys.executable, "-c", program, state.path, str(APPLICATION)]
    with database(state).writing() as connection:
        connection.execute("DELETE FROM things")
        assert len(rows(database(state))) == 2
        with StateDirectory.make(state.path):
            pass
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert rows(database(state)) == []
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == "written\n"


def test_a_writer_that_is_killed_leaves_what_was_before(state: StateDirectory) -> None:
    """A transaction that a kill cut short is undone by the next reader, journal and all."""
    path = fill(state, rows=500)
    program = """
import os, signal, sys
from isandbox._state.database import Database
from isandbox._state.directory import StateDirectory
with Database(StateDirectory.open(sys.argv[1]), "things.db", int(sys.argv[2]), [()]).writing() as connection:
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("UPDATE things SET name = name || 'x'")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program, state.path, str(APPLICATION)], check=False)
    assert (path.parent / "things.db-journal").stat().st_size > 0
    assert rows(database(state))[1:] == [(f"{number:0100}",) for number in range(500)]


def test_sqlite_is_imported_by_who_uses_it() -> None:
    """Owned sandboxes never pay for it."""
    program = "import isandbox_backends.seccomp, isandbox_backends.local, isandbox._state.database, sys; print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
