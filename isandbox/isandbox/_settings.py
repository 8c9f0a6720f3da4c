"""The one module that reads isandbox's environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from isandbox.errors import BackendUnavailableError

_NATIVE = {"linux": "seccomp"}


@dataclass(frozen=True, slots=True)
class Settings:
    """``SANDBOX_TYPE``: which backend `create_sandbox` takes when none is named; empty counts as unset."""

    sandbox_type: str | None


def read_settings() -> Settings:
    return Settings(sandbox_type=os.environ.get("SANDBOX_TYPE") or None)


@dataclass(frozen=True, slots=True)
class StateVariables:
    """``ISANDBOX_STATE_DIR``, ``XDG_STATE_HOME`` and ``HOME``, as they are now; empty counts as unset."""

    state_dir: str | None = None
    xdg_state_home: str | None = None
    home: str | None = None


def read_state_variables() -> StateVariables:
    names = ("ISANDBOX_STATE_DIR", "XDG_STATE_HOME", "HOME")
    return StateVariables(*(os.environ.get(name) or None for name in names))


def environment(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Those of the variables that are set now and not empty. Their values stand in no message."""
    return tuple((name, value) for name in names if (value := os.environ.get(name)))


def default_type() -> str:
    """``SANDBOX_TYPE``, else the platform's native backend. Never a weaker one in its place."""
    chosen = read_settings().sandbox_type or _NATIVE.get(sys.platform)
    if chosen is None:
        raise BackendUnavailableError(
            f"there is no native backend for {sys.platform} yet; name one, for example SANDBOX_TYPE=local (no isolation)"
        )
    return chosen
