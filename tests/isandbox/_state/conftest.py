"""A state directory of the test's own."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isandbox._state.directory import StateDirectory


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    with StateDirectory.make(str(tmp_path / "state")) as directory:
        yield directory


@pytest.fixture
def new_id() -> Callable[[], str]:
    return lambda: f"seccomp-{secrets.token_hex(16)}"
