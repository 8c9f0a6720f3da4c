"""The helper's two parsers, of plans and of requests, against a corpus and what becomes of it at random: sanitised, and with
everything behind them, on a kernel that does nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
HELPER = HERE.parents[2] / "backends" / "helper"
# Edges that the corpus reaches at the least (gcc 12 counts 730 and 2390): a target that stopped at its first check would be green.
REACHED = {"plan": 500, "requests": 1700}
ROUNDS = {"plan": 30_000, "requests": 5_000}
FAULTS = [
    pytest.param("plan", "plan.c", ("if (r.len > plan.size || at > plan.size)", "if (0)"), id="a record past the end of a plan"),
    pytest.param("plan", "plan.c", ("if (pos++ >= r->len)", "if (pos++ > r->len + 9)"), id="a string without end in a plan"),
    pytest.param("plan", "plan.c", ("check_id_map (plan.gid_map);", ""), id="an id map that is none"),
    pytest.param("requests", "command.c", (" || c->start.argc == 0", ""), id="a request without a program"),
    pytest.param("requests", "command.c", ("if (*s >= end)", "if (0)"), id="strings past the end of a request"),
    pytest.param("requests", "command.c", ("c->fd_in, c->fd_out, c->fd_err,", "c->fd_in, c->fd_out,"), id="a descriptor not closed"),
    pytest.param("requests", "command.c", ("c->fd_err, c->fd_script }", "c->fd_err, c->fd_status }"), id="one closed twice"),
    pytest.param("requests", "clients.c", ("|| c->nfds + count > MAX_FDS)", "|| 0)"), id="more descriptors than there is room for"),
    pytest.param("requests", "clients.c", ("      SYS (close, c->source.fd);\n", ""), id="a connection that has ended, not closed"),
    pytest.param("requests", "clients.c", ("    SYS (close, c->fds[i]);", "    c->fds[i] = -1;"), id="what a broken client sent, not closed"),
    pytest.param("requests", "clients.c", ("  loop_remove (&c->source);\n", ""), id="a client that has gone, waited for"),
    pytest.param("requests", "viewer.c", ("  close_one (&v->in);\n  close_one (&v->out[0]);", "  close_one (&v->in);"), id="a viewer that is not closed"),
    pytest.param("requests", "ring.c", ("u64 place = at % r->size,", "u64 place = at % (r->size + 64),"), id="bytes past the end of a ring"),
]  # fmt: skip


def files(kind: str, seeds: Path) -> Iterator[str]:
    yield from sorted(map(str, (HERE / "corpus" / kind).iterdir()))
    yield from sorted(map(str, (seeds / kind).iterdir()))


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fresh plans and requests: of whatever the host's side sends today."""
    directory = tmp_path_factory.mktemp("seeds")
    subprocess.run([sys.executable, str(HERE / "seeds.py"), str(directory)], check=True)
    return directory


def drive(program: Path, rounds: int, inputs: Iterator[str]) -> subprocess.CompletedProcess[str]:
    command = [str(program), str(rounds), *inputs]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=100, check=False, env={})


@pytest.mark.parametrize("kind", ["plan", "requests"])
def test_the_corpus_and_what_becomes_of_it(fuzz_workshop: Any, seeds: Path, kind: str) -> None:
    """No input reads or writes where it must not, closes what is not its own, or forgets a descriptor."""
    done = drive(fuzz_workshop.target(kind), ROUNDS[kind], files(kind, seeds))
    assert done.returncode == 0, done.stderr
    found = re.search(r"(\d+) edges", done.stdout)
    assert found is not None
    assert int(found[1]) > REACHED[kind]


@pytest.mark.parametrize(("kind", "source", "fault"), FAULTS)
def test_a_fault_is_found(fuzz_workshop: Any, seeds: Path, kind: str, source: str, fault: tuple[str, str]) -> None:
    """The control: with one check taken out of a copy, the same run ends in a report."""
    right, wrong = fault
    text = (HELPER / source).read_text()
    assert text.count(right) == 1
    broken = fuzz_workshop.target(kind, {source: text.replace(right, wrong)})
    assert drive(broken, ROUNDS[kind], files(kind, seeds)).returncode != 0


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["plan", "requests"])
def test_a_minute_of_libfuzzer(engine_workshop: Any, seeds: Path, tmp_path: Path, kind: str) -> None:
    """Guided by coverage, from the corpus on, a minute long: nothing is found."""
    program = engine_workshop.target(kind, flags=("-fsanitize=fuzzer",))
    found = tmp_path / "found"
    found.mkdir()
    for number, path in enumerate(files(kind, seeds)):
        shutil.copy(path, found / f"seed-{number}")
    command = [
        str(program),
        "-max_total_time=60",
        "-max_len=32768",
        "-timeout=20",
        f"-artifact_prefix={tmp_path}/",
        str(found),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-8000:]
