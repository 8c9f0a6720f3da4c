"""From what a caller writes to one checked `ProcessSpec`. Pure: nothing is started, nothing is looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from isandbox._text import encoded, shown
from isandbox.errors import ConfigurationError
from isandbox.policy import check_env, check_path
from isandbox.records import TerminalSize

Command = str | Sequence[str]
StderrMode = Literal["separate", "merge"]

# Linux: MAX_ARG_STRLEN is 32 pages. A longer element cannot be passed to a program at all.
ARG_ELEMENT_LIMIT = 131_072
ARG_TOTAL_LIMIT = 1 << 20
SCRIPT_LIMIT = 1 << 20
MAX_OUTPUT_DEFAULT = 1 << 20
TIMEOUT_DEFAULT = 60.0
_SIGNAL_LARGEST = 64  # SIGRTMAX of Linux
# A day short of what fits the wire's 32-bit milliseconds.
_TIMEOUT_LARGEST = 4_200_000.0


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One command, checked. A frozen record so that fields can be added without breaking a backend.

    Exactly one of ``script`` (for ``/bin/sh -c``) and ``argv`` is set. ``stdin`` is ``None`` for "at EOF", bytes to send,
    or ``"pipe"`` for a handle that writes. ``timeout`` is seconds, ``None`` the sandbox's life.

    ``background``: the command is kept, `ISandbox.start` says what that means. ``terminal``: it has one, and its stderr is merged.
    A backend that runs such commands says so with the verbs ``attach`` and ``terminal``.
    """

    argv: tuple[str, ...] = ()
    script: str | None = None
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    stdin: bytes | Literal["pipe"] | None = field(default=None, repr=False)
    timeout: float | None = TIMEOUT_DEFAULT
    max_output: int = MAX_OUTPUT_DEFAULT
    stderr: StderrMode = "separate"
    user: str | None = None
    want_pid: bool = False
    background: bool = False
    terminal: TerminalSize | None = None


def check_command(command: Command) -> tuple[tuple[str, ...], str | None]:
    """``(argv, None)`` for a sequence, ``((), script)`` for a text. Raises `ConfigurationError` for what cannot run."""
    if isinstance(command, str):
        if not command.strip():
            raise ConfigurationError("command: an empty command does nothing; name a program")
        _no_nul(command, "command")
        if len(encoded(command, "command")) > SCRIPT_LIMIT:
            raise ConfigurationError(f"command: a script is at most {SCRIPT_LIMIT} bytes; write it to a file and run that")
        return (), command
    if isinstance(command, (bytes, bytearray)) or not isinstance(command, Sequence):
        raise ConfigurationError(f"command: a text for the shell or a sequence of texts, not {type(command).__name__}")
    argv = tuple(command)
    if not argv or not argv[0]:
        raise ConfigurationError("command: an empty command does nothing; name a program")
    total = 0
    for index, element in enumerate(argv):
        if not isinstance(element, str):
            raise ConfigurationError(f"command: element {index} is {type(element).__name__}, not a text")
        _no_nul(element, f"command: element {index}")
        size = len(encoded(element, f"command: element {index}")) + 1
        if size > ARG_ELEMENT_LIMIT:
            raise ConfigurationError(
                f"command: element {index} has {size - 1} bytes; the kernel takes less than {ARG_ELEMENT_LIMIT}. "
                "Pass it as input= or write it to a file"
            )
        total += size
    if total > ARG_TOTAL_LIMIT:
        raise ConfigurationError(
            f"command: {total} bytes of arguments are over the limit of {ARG_TOTAL_LIMIT}. Pass them as input= or in a file"
        )
    return argv, None


def check_timeout(timeout: float | None) -> float | None:
    """Seconds above 0, or ``None``."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise ConfigurationError(f"timeout: seconds or None, not {timeout!r}")
    if not 0 < timeout <= _TIMEOUT_LARGEST:  # false for NaN too
        raise ConfigurationError(f"timeout: {shown(timeout)} is not above 0 and at most {_TIMEOUT_LARGEST:.0f} seconds")
    return float(timeout)


def check_signal(number: int) -> int:
    """A signal of Linux: a whole number from 1 to 64."""
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _SIGNAL_LARGEST:
        raise ConfigurationError(f"signal: a whole number from 1 to {_SIGNAL_LARGEST}, not {shown(number)}")
    return int(number)


def check_max_output(max_output: int) -> int:
    """Bytes of each stream to keep."""
    if isinstance(max_output, bool) or not isinstance(max_output, int) or max_output < 0:
        raise ConfigurationError(f"max_output: bytes, 0 or more, not {shown(max_output)}")
    return max_output


def check_input(value: str | bytes | bytearray | memoryview | None, name: str = "data") -> bytes | None:
    """Bytes for a command or a file; a text as UTF-8."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return encoded(value, name)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise ConfigurationError(f"{name}: bytes, a text or None, not {type(value).__name__}")


def make_spec(
    command: Command,
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    input: str | bytes | None = None,
    stdin: Literal["pipe"] | None = None,
    timeout: float | None = TIMEOUT_DEFAULT,
    max_output: int = MAX_OUTPUT_DEFAULT,
    stderr: StderrMode = "separate",
    user: str | None = None,
    want_pid: bool = False,
    background: bool = False,
    terminal: TerminalSize | None = None,
) -> ProcessSpec:
    """Check everything once, for every backend. Raises `ConfigurationError`."""
    argv, script = check_command(command)
    if input is not None and stdin is not None:
        raise ConfigurationError("input and stdin='pipe' exclude each other")
    if stderr not in ("separate", "merge"):
        raise ConfigurationError(f"stderr: 'separate' or 'merge', not {stderr!r}")
    check_max_output(max_output)
    if not isinstance(background, bool):
        raise ConfigurationError(f"background: True or False, not {shown(background)}")
    if terminal is not None and not isinstance(terminal, TerminalSize):
        raise ConfigurationError(f"terminal: a TerminalSize or None, not {shown(terminal)}")
    return ProcessSpec(
        argv=argv,
        script=script,
        cwd="" if cwd is None else check_path(cwd, "cwd"),
        env=check_env(env) if env else MappingProxyType({}),
        stdin=stdin if stdin is not None else check_input(input, "input"),
        timeout=check_timeout(timeout),
        max_output=max_output,
        stderr="merge" if terminal else stderr,
        user=user,
        want_pid=want_pid,
        background=background,
        terminal=terminal,
    )


def _no_nul(text: str, what: str) -> None:
    if "\0" in text:
        raise ConfigurationError(f"{what}: a NUL character cannot be passed to a program")
