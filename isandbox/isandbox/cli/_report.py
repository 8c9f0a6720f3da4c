"""What is said about a command's end: exit code, lines for people, objects for programs. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isandbox._text import plain
from isandbox.cli._neutral import visible
from isandbox.errors import SandboxError, UnsupportedError

if TYPE_CHECKING:
    from isandbox.cli._prepare import Prepared
    from isandbox.records import ExecResult

TIMED_OUT = 124
NOT_FOUND = 127
_WAYS_OUT = {
    "workspace.ro": "or let the command write with -w DIR:rw",
    "quotas.disk": "here that is -w none, or --waive disk",
}
"""By the option of an `UnsupportedError`."""
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, as far as a report needs it; a `Prepared` has it too."""

    argv: tuple[str, ...]
    timeout: float | None = None
    memory: int | None = None
    hidden: str | None = None


def end_code(result: ExecResult) -> int:
    """124 for a time-out, as timeout(1) has it; else what the kernel said."""
    return TIMED_OUT if result.fault == "timeout" else result.exit_code


def end_lines(result: ExecResult, prepared: Prepared | Asked) -> Iterator[bytes]:
    """A line when the command did not start, and one when the sandbox ended it."""
    if result.start_error is not None:
        yield _said(_start_error(result, prepared))
    if result.fault is not None:
        yield _said(f"the sandbox ended the command: {result.fault}{_detail(result.fault, prepared)}")


def result_object(result: ExecResult, prepared: Prepared | Asked) -> dict[str, Any]:
    return {
        "exit_code": result.exit_code,
        "signal": result.signal,
        "fault": result.fault,
        "limits_hit": sorted(result.limits_hit),
        "stdout": result.stdout,
        "stderr": result.stderr,
        "truncated": result.truncated,
        "lingering": result.lingering,
        "start_error": None if result.start_error is None else _start_error(result, prepared),
        "duration": result.duration,
        "cpu_time": result.cpu_time,
        "max_rss": result.max_rss,
    }


def error_object(error: Exception) -> dict[str, Any]:
    code = error.code if isinstance(error, SandboxError) else "os_error"
    return {"error": {"code": code, "message": error_text(error)}}


def error_text(error: Exception) -> str:
    """The message, with the way out that only the command line has; of the operating system's errors without their numbers."""
    if isinstance(error, UnsupportedError) and error.option in _WAYS_OUT:
        return f"{error}; {_WAYS_OUT[error.option]}"
    if isinstance(error, OSError) and not isinstance(error, SandboxError) and error.strerror:
        names = " -> ".join(
            plain(os.fsdecode(name)) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)
        )
        return f"{names}: {error.strerror}" if names else error.strerror
    return str(error)


def format_size(size: int) -> str:
    """The largest binary unit that says it exactly."""
    for factor, unit in _UNITS:
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} bytes"


def _start_error(result: ExecResult, prepared: Prepared | Asked) -> str:
    if result.exit_code == NOT_FOUND and len(prepared.argv) == 1 and any(map(str.isspace, prepared.argv[0])):
        return f"{result.start_error} (one word is a program's name; a shell line runs as: -- sh -c '...')"
    if result.exit_code != NOT_FOUND or prepared.hidden is None:
        return str(result.start_error)
    return f"{result.start_error} (exists on the host at {prepared.hidden}, not visible inside; mount it with --mount)"


def _detail(fault: str, prepared: Prepared | Asked) -> str:
    if fault == "timeout" and prepared.timeout is not None:
        return f" (after {prepared.timeout:g} s)"
    if fault == "oom" and prepared.memory is not None:
        return f" (memory quota {format_size(prepared.memory)})"
    return ""


def _said(text: str) -> bytes:
    return f"isandbox: {visible(text)}\n".encode("utf-8", "surrogateescape")
