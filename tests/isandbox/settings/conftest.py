"""A user, a project and an environment with nothing in them that was not put there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from isandbox._settings import variables


@dataclass(frozen=True)
class World:
    """``project``: the current directory. ``user``: where the user's file would be."""

    project: Path
    user: Path
    forget: Callable[[], None]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in list(os.environ):
        if name.startswith(("ISANDBOX_", "SANDBOX_TYPE", "XDG_CONFIG_HOME")):
            monkeypatch.delenv(name)
    project, home = tmp_path / "project", tmp_path / "home"
    user = home / ".config" / "isandbox" / "isandbox.toml"
    project.mkdir()
    user.parent.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)

    def forget() -> None:
        """As in a new process."""
        monkeypatch.setattr(variables, "_found", None)
        monkeypatch.setattr(variables, "_answer", (None, variables.Settings()))

    forget()
    return World(project / "isandbox.toml", user, forget)
