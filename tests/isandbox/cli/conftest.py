"""What the tests of the command line share: the installed program, and trees of fake installations."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from isandbox.cli.schemas import load_schema

PROGRAM = os.path.join(os.path.dirname(sys.executable), "isandbox")


@pytest.fixture(scope="session")
def program() -> str:
    """The installed command, as a user calls it."""
    return PROGRAM


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty directory to work in."""
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def isandbox(project: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs ``isandbox`` in the project and waits for its end, a minute at the most."""

    def call(*arguments: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[bytes]:
        options = {"cwd": project, "input": b"", "timeout": 60, "env": {**os.environ, **(env or {})}, **options}
        return subprocess.run([PROGRAM, *arguments], capture_output=True, check=False, **options)

    return call


@pytest.fixture
def local(isandbox: Callable[..., subprocess.CompletedProcess[bytes]]) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """``isandbox run`` on the backend that runs everywhere."""

    def call(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        return isandbox("run", "--type", "local", "-w", ".:rw", *arguments, **options)

    return call


@pytest.fixture
def executable() -> Callable[..., Path]:
    """Makes an executable file with all that is above it."""

    def make(path: Path, content: str = "\x7fELF") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755)
        return path

    return make


def strict(schema: Any) -> Any:
    """The same, but a key that it does not know is an error."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    return {"additionalProperties": False, **closed} if isinstance(closed.get("properties"), dict) else closed


@pytest.fixture(scope="session")
def held() -> Callable[[str, object], None]:
    """Holds what a command has printed against its schema, to the last key."""

    def check(command: str, value: object) -> None:
        Draft202012Validator(strict(load_schema(command))).validate(value)

    return check
