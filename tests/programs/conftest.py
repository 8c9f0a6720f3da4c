"""Sandboxes for real programs, and the programs: one that is missing is a skip that says how to get it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from isandbox.sync import create_sandbox

# What a sandbox sees: a tool below somebody's home directory is not meant.
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


def need(tool: str, package: str, *, cheap: bool = False) -> str:
    """The path of the tool. ``cheap``: where tests run for everybody it must be there, so that its promise is not just skipped."""
    found = shutil.which(tool, path=SYSTEM_PATH)
    if found is None:
        reason = f"{tool} is missing: apt-get install {package}"
        (pytest.fail if cheap and os.environ.get("CI") else pytest.skip)(reason)
    return found


def succeeded(result: Any) -> str:
    """The output of a command that must have worked."""
    assert (result.exit_code, result.fault, result.limits_hit) == (0, None, frozenset()), (
        f"{result}\n{result.stdout}\n{result.stderr}"
    )
    output: str = result.stdout
    return output


@pytest.fixture(scope="session")
def tools() -> Callable[..., str]:
    return need


@pytest.fixture(scope="session")
def worked() -> Callable[[Any], str]:
    return succeeded


@pytest.fixture
def make(sandbox_tmp: Path) -> Iterator[Callable[..., Any]]:
    """``make(profile, **options)``: a seccomp sandbox, closed at the end of the test."""
    with ExitStack() as stack:
        yield lambda profile="default", **options: stack.enter_context(create_sandbox("seccomp", profile=profile, **options))


@pytest.fixture(scope="module")
def box(sandbox_tmp: Path) -> Iterator[Any]:
    """A default sandbox for the programs of one module."""
    with create_sandbox("seccomp") as sandbox:
        yield sandbox


@pytest.fixture
def host_directory(sandbox_tmp: Path) -> Iterator[Path]:
    """A directory of the host; as root it belongs to somebody else, as a user's project does."""
    path = sandbox_tmp / "project"
    path.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(path, 43210, 43210)
    yield path
    shutil.rmtree(path)
