"""gcc, SQLite and pip under the default profile: cheap enough for every run."""

from __future__ import annotations

import importlib.util
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isandbox import Mount, Workspace

pytestmark = pytest.mark.native

Worked = Callable[[Any], str]

PROGRAM = """
#include <pthread.h>
#include <stdio.h>
static void *work (void *n) { return (char *) n + 1; }
int main (void)
{
  pthread_t thread; void *result;
  pthread_create (&thread, 0, work, (void *) 41);
  pthread_join (thread, &result);
  printf ("%ld\\n", (long) result);
}
"""


def test_gcc(box: Any, worked: Worked, tools: Callable[..., str]) -> None:
    """A C program is compiled, linked and run, and make runs gcc in parallel."""
    tools("gcc", "gcc libc6-dev", cheap=True)
    tools("make", "make", cheap=True)
    box.files.write("c/program.c", PROGRAM)
    box.files.write("c/other.c", "int other = 1;\n")
    box.files.write("c/Makefile", "program: program.o other.o\n\tgcc -pthread -o $@ $^\n")
    assert worked(box.exec("make -s -j2 -Otarget program && ./program", cwd="c")) == "42\n"


SQLITE = """
import sqlite3
one, two = sqlite3.connect("data.db"), sqlite3.connect("data.db", timeout=0)
print(one.execute("pragma journal_mode=wal").fetchone()[0])
with one:
    one.execute("create table t (n)")
    one.executemany("insert into t values (?)", [(n,) for n in range(1000)])
one.execute("begin immediate")
try:
    two.execute("begin immediate")
except sqlite3.OperationalError as error:
    print(error)
print(two.execute("select sum(n) from t").fetchone()[0])
"""


@pytest.mark.parametrize("place", ["its own", "the host's"])
def test_sqlite(make: Callable[..., Any], worked: Worked, host_directory: Path, place: str) -> None:
    """Write-ahead logging and its locks work, in scratch space and in a directory of the host."""
    sandbox = make(workspace=None if place == "its own" else Workspace(str(host_directory)))
    assert worked(sandbox.exec(["python3", "-c", SQLITE])).splitlines() == ["wal", "database is locked", "499500"]


def test_the_sqlite_shell(box: Any, worked: Worked, tools: Callable[..., str]) -> None:
    """The sqlite3 program writes a file and reads it."""
    tools("sqlite3", "sqlite3", cheap=True)
    assert worked(box.exec("sqlite3 s.db 'create table t(n); insert into t values (6); select n * 7 from t'")) == "42\n"


BACKEND = """
import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "fromsource-2.0-py3-none-any.whl"
    with zipfile.ZipFile(directory + "/" + name, "w") as wheel:
        wheel.write("fromsource.py")
        wheel.writestr("fromsource-2.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: fromsource\\nVersion: 2.0\\n")
        wheel.writestr("fromsource-2.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("fromsource-2.0.dist-info/RECORD", "")
    return name
"""


@pytest.fixture
def index(sandbox_tmp: Path) -> Iterator[Path]:
    """A directory with a wheel, and a source distribution that it needs and that builds itself."""
    path = sandbox_tmp / "index"
    source = path / "fromsource-2.0"
    source.mkdir(parents=True)
    (source / "fromsource.py").write_text("answer = 42\n")
    (source / "backend.py").write_text(BACKEND)
    (source / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n')
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: fromsource\nVersion: 2.0\n")
    with tarfile.open(path / "fromsource-2.0.tar.gz", "w:gz") as archive:
        archive.add(source, "fromsource-2.0")
    with zipfile.ZipFile(path / "wheeled-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("wheeled.py", "from fromsource import answer\n")
        metadata = "Metadata-Version: 2.1\nName: wheeled\nVersion: 1.0\nRequires-Dist: fromsource>=2\n"
        wheel.writestr("wheeled-1.0.dist-info/METADATA", metadata)
        wheel.writestr("wheeled-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("wheeled-1.0.dist-info/RECORD", "")
    yield path
    for place in (source / "fromsource.py", source / "backend.py", source / "pyproject.toml", source / "PKG-INFO"):
        place.unlink()
    source.rmdir()
    for place in path.iterdir():
        place.unlink()
    path.rmdir()


def test_pip_from_a_directory(make: Callable[..., Any], worked: Worked, index: Path) -> None:
    """pip installs a wheel from a mounted directory, and builds and installs the source distribution that the wheel needs."""
    found = importlib.util.find_spec("pip")
    if found is None or found.origin is None:
        pytest.skip("this interpreter has no pip: python3 -m ensurepip")
    pip = Mount(str(Path(found.origin).parent.resolve()), "/opt/pip/pip")
    sandbox = make(mounts=[Mount(str(index), "/index"), pip])
    worked(
        sandbox.exec(
            ["python3", "-m", "pip", "install", "--no-index", "--find-links", "/index", "--target", "installed", "wheeled"],
            env={"PYTHONPATH": "/opt/pip"},
        )
    )
    run = ["python3", "-c", "import wheeled; print(wheeled.answer)"]
    assert worked(sandbox.exec(run, env={"PYTHONPATH": "installed"})) == "42\n"
