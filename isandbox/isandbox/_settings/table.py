"""Every setting: its key in ``isandbox.toml``, its variable, what it may be, and who may set it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from isandbox.errors import ConfigurationError
from isandbox.policy import Quotas, meets
from isandbox.policy.capabilities import LADDER

_NUMBER = re.compile(r"[0-9]{1,19}(?:\.[0-9]{1,19})?\Z", re.ASCII)
_DAY = 86_400.0
NO_LIMIT = "none"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row. ``key`` is empty for what only the environment says, ``variable`` is never.

    ``read`` makes the value of what a file or a variable holds, or raises `ConfigurationError`. ``project``: what a file in the
    current directory may do with it. ``unset`` is the value when nobody has set it, to which ``lower`` and ``raise`` refer.
    """

    key: str
    variable: str
    allowed: str
    default: str
    about: str
    project: Literal["refused", "lower", "raise"] = "refused"
    read: Callable[[object], object] = str
    unset: object = None

    def narrower(self, value: object, than: object) -> bool:
        """Whether a project file's value asks for less than the one that holds without it."""
        if self.project == "raise":
            return LADDER.index(str(value)) > LADDER.index(str(than))
        if not isinstance(value, (int, float)):  # without a limit
            return False
        return not isinstance(than, (int, float)) or value < than


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError("no text")
    return value


def _isolation(value: object) -> str:
    text = _text(value)
    meets("vm", text)  # type: ignore[arg-type] # it says whether this is a rung
    return text


def _seconds(value: object) -> float:
    """Seconds above 0 and at most a day, as `create_sandbox` takes them."""
    number = _plain_number(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number <= _DAY:
        raise ConfigurationError("no number of seconds")
    return float(number)


def _plain_number(value: object) -> object:
    """A variable holds text where a file holds a number."""
    if isinstance(value, _FromVariable) and _NUMBER.match(value):
        return float(value) if "." in value else int(value)
    return value


class _FromVariable(str):
    """A text that had to be one: in a file a number stands without quotes."""

    __slots__ = ()


def from_variable(text: str) -> str:
    return _FromVariable(text)


def _quota(name: str, value: object) -> object:
    if isinstance(value, str) and value == NO_LIMIT:
        return None
    if value is None:
        raise ConfigurationError("no value")
    return getattr(Quotas(**{name: _plain_number(value)}), name)  # type: ignore[arg-type] # Quotas checks itself


def _of_quota(name: str, allowed: str, about: str, unset: int | None = None) -> Setting:
    return Setting(
        f"quotas.{name}",
        f"ISANDBOX_QUOTAS_{name.upper()}",
        f"{allowed}, or {NO_LIMIT!r}",
        NO_LIMIT if unset is None else str(unset),
        about,
        "lower",
        partial(_quota, name),
        unset,
    )


_SIZE = "bytes, or a size such as '512MiB'"
SETTINGS = (
    Setting(
        "type",
        "SANDBOX_TYPE",
        "the name of a backend",
        "the platform's native one",
        "Which backend `create_sandbox` takes when none is named.",
        read=_text,
    ),
    Setting(
        "min_isolation",
        "ISANDBOX_MIN_ISOLATION",
        f"one of {', '.join(LADDER)}",
        "none",
        "The least isolation that a backend must give.",
        "raise",
        _isolation,
        "none",
    ),
    Setting(
        "start_timeout",
        "ISANDBOX_START_TIMEOUT",
        "seconds above 0 and at most 86400",
        "60",
        "How long a sandbox may take to start.",
        "lower",
        _seconds,
        60.0,
    ),
    _of_quota("cpus", "a number above 0", "CPUs at once, for the whole sandbox."),
    _of_quota("cpu_time", "seconds above 0", "CPU seconds of one command with all its children."),
    _of_quota("memory", _SIZE, "Memory of the whole sandbox."),
    _of_quota("disk", _SIZE, "What the sandbox may write in its workspace and scratch space."),
    _of_quota("pids", "a whole number above 0", "Processes and threads at once, for the whole sandbox.", 256),
    _of_quota("open_files", "a whole number above 0", "Open descriptors per process.", 1024),
    _of_quota("file_size", _SIZE, "The largest file that may be written."),
    _of_quota("output", _SIZE, "Standard output and error of one command together."),
    Setting(
        "",
        "ISANDBOX_CONFIG",
        "the path of a file; empty for none",
        "both files",
        "One settings file, instead of the project's and the user's.",
    ),
    Setting(
        "",
        "ISANDBOX_STATE_DIR",
        "the path of a directory",
        "see below",
        "Where sandboxes that outlive this process are registered.",
    ),
)
BY_KEY = {setting.key: setting for setting in SETTINGS if setting.key}
BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
