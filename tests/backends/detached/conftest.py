"""A state directory of the test's own, a second Python, and what is left of a detached sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isandbox import sync
from isandbox._state.directory import StateDirectory
from isandbox._state.register import Register
from isandbox.errors import SandboxError
from isandbox_backends._shared.detached.processes import NamedHelper, helpers

LIFETIME = 300.0


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where detached sandboxes of this test are kept; what it leaves alive is ended, and is an error."""
    directory = tmp_path_factory.mktemp("state") / "isandbox"
    monkeypatch.setenv("ISANDBOX_STATE_DIR", str(directory))
    yield directory
    left = [summary.id for summary in sync.list_sandboxes() if summary.detached and summary.state == "running"]
    for name in left:
        try:
            sync.kill_sandbox(name)
        except SandboxError as error:
            print(error)
    assert not left, f"sandboxes were left behind: {left}"
    known = set(entered(directory))
    assert eventually(lambda: not known & {helper.id for helper in helpers()}), "helpers were left behind"


def eventually(holds: Callable[[], object], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def first_process(id: str) -> NamedHelper:
    """Of a sandbox, as soon as its launcher, which has the same name and ends on its own, is gone."""
    found: list[NamedHelper] = []

    def alone() -> bool:
        found[:] = [helper for helper in helpers() if helper.id == id and comm(helper.pid) == "isandbox-helper"]
        return len(found) == 1

    assert eventually(alone), found
    return found[0]


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:  # it has ended
        return ""


Other = Callable[..., Any]


@pytest.fixture
def other() -> Other:
    """``other(code, *arguments)``: what ``code`` says with ``say(value)`` in a second Python, where ``args`` are the arguments."""

    def run(code: str, *arguments: str, wait: bool = True) -> Any:
        program = (
            "import sys, json\nargs = sys.argv[1:]\n"
            "def say(value): print(json.dumps(value), flush=True)\n"
            "from isandbox import sync\n" + code
        )
        command = [sys.executable, "-c", program, *arguments]
        if not wait:
            return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(params=["seccomp", "local"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def entered(state: Path) -> list[str]:
    """Ids of all that the register has, whatever became of them."""
    with StateDirectory.make(str(state)) as directory:
        return [entry.id for entry in Register(directory).list().entries]


def states(state: Path) -> list[str]:
    """Of the detached sandboxes in the list, oldest first."""
    known = entered(state)
    return [summary.state for summary in sync.list_sandboxes() if summary.id in known]


def reaped(state: Path) -> list[str]:
    """Ids that a reap removed; on the same machine others may have left something too."""
    removed = sync.reap().removed
    return [name for name in entered(state) if name in removed]


def leftovers(id: str, state: Path) -> list[str]:
    """What still has the sandbox's name on this machine."""
    found = [str(path) for path in (state / "sandboxes").glob("*")] if state.exists() else []
    found += [name for name in os.listdir(tempfile.gettempdir()) if id in name]
    found += [f"process {helper.pid}" for helper in helpers() if helper.id == id]
    for top, directories, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{top}/{name}" for name in directories if id in name]
    return found
