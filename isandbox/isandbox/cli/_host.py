"""The one module of the command line that reads the user's environment."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Host:
    """What the command line knows of the user who calls it. ``homes``: real paths of the directories that are theirs."""

    path: str = ""
    cwd: str = "/"
    homes: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_host() -> Host:
    """Raises `FileNotFoundError` when the current directory is gone."""
    env = read_env()
    return Host(path=env.get("PATH", ""), cwd=os.getcwd(), homes=_homes(env), env=env)


def read_env() -> dict[str, str]:
    return dict(os.environ)


def _homes(env: Mapping[str, str]) -> tuple[str, ...]:
    """Both what HOME says and what the user data base says: sudo and containers make them differ."""
    named = [env.get("HOME", "")]
    with contextlib.suppress(KeyError):  # an id without an entry
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    return tuple(dict.fromkeys(os.path.realpath(home) for home in named if home.startswith("/")))


def terminal_type() -> str | None:
    """The user's TERM; ``None`` when there is none."""
    return os.environ.get("TERM") or None
