"""What comes back: frozen records without behaviour beyond what their fields already say."""

from __future__ import annotations

import signal as _signal
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

from isandbox import errors
from isandbox._text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from isandbox.policy import Capabilities, Isolation, Quotas

Fault = Literal["timeout", "oom", "cpu", "output", "cancelled", "killed"]
Limit = Literal["pids", "disk", "open_files", "file_size"]
Stream = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
FileKind = Literal["file", "directory", "symlink", "other"]
SandboxState = Literal["running", "ended", "elsewhere"]

_ERROR_OF_FAULT: dict[str, type[errors.ExecFailedError]] = {
    "timeout": errors.ExecTimeoutError,
    "oom": errors.ExecMemoryError,
    "cpu": errors.ExecCpuError,
    "output": errors.ExecOutputLimitError,
    "cancelled": errors.ExecCancelledError,
    "killed": errors.ExecKilledError,
}


@dataclass(frozen=True, slots=True)
class Omitted:
    """Bytes that were read but not kept, per stream: exact."""

    stdout: int = 0
    stderr: int = 0


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What became of a command.

    ``exit_code`` and ``signal`` are what the kernel said: a death by signal n is exit code 128 + n. ``fault`` is set when
    the sandbox ended the command, and is ``output`` for one that wrote more than `Quotas.output` however it ended. ``limits_hit`` names the quotas of which it refused more while the command ran (``pids``,
    ``disk``, ``open_files``, ``file_size``); how surely is in the capability record, `Enforcement.told`. Both come from a
    channel that the command cannot write to.

    ``stdout`` and ``stderr`` decode the bytes as UTF-8 with replacement; where the output was longer than ``max_output`` its
    head and tail are kept with a line between them that says how much is missing.
    """

    exit_code: int
    signal: int | None = None
    fault: Fault | None = None
    limits_hit: frozenset[Limit] = frozenset()
    stdout_bytes: bytes = field(default=b"", repr=False)  # a repr ends up in logs: no output, which may be secret or large
    stderr_bytes: bytes = field(default=b"", repr=False)
    omitted: Omitted = Omitted()
    lingering: bool = False
    """A background child of the command was still alive when this result was made. It lives on until the sandbox closes."""
    start_error: str | None = None
    """Why the program did not start (exit code 126 or 127), else ``None``."""
    duration: float = 0.0
    """Seconds from start to end, by the sandbox's own clock."""
    cpu_time: float = 0.0
    """CPU seconds, user and system, of the command and every child that has ended."""
    max_rss: int = 0
    """Bytes: the largest resident set of any one process of the command."""
    violations: tuple[str, ...] = ()
    """For backends that can name what they refused; those that exist cannot."""

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def truncated(self) -> bool:
        return bool(self.omitted.stdout or self.omitted.stderr)

    @property
    def ok(self) -> bool:
        """Exit code 0 and no fault."""
        return self.exit_code == 0 and self.fault is None

    def check(self) -> Self:
        """Return self when `ok`; else raise the one error of the fault, or `ExecFailedError`."""
        if self.ok:
            return self
        raise _ERROR_OF_FAULT.get(self.fault or "", errors.ExecFailedError)(self._describe(), self)

    def _describe(self) -> str:
        if self.start_error is not None:
            return f"the command did not start: {self.start_error}"
        if self.fault is not None:
            return f"the sandbox ended the command: {self.fault} (exit code {self.exit_code})"
        if self.signal is not None:
            return f"the command died by {signal_name(self.signal)} (exit code {self.exit_code})"
        return f"the command ended with exit code {self.exit_code}"


@dataclass(frozen=True, slots=True)
class RunResult(ExecResult):
    """The result of `run`, with the files that it brought back."""

    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; ``signal 40`` where there is no name."""
    try:
        return _signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """Of a terminal, in characters. `ConfigurationError` for what is not from 1 to 65535."""

    rows: int = 24
    columns: int = 80

    def __post_init__(self) -> None:
        _check_numbers("terminal", ("rows", self.rows), ("columns", self.columns), least=1, most=65_535)


@dataclass(frozen=True, slots=True)
class Offsets:
    """A place in each of a command's streams: how many bytes of it came before. `ConfigurationError` for what is no number of
    bytes. A command whose stderr is merged, as a terminal's is, has no bytes in ``stderr``.
    """

    stdout: int = 0
    stderr: int = 0

    def __post_init__(self) -> None:
        _check_numbers("offsets", ("stdout", self.stdout), ("stderr", self.stderr), least=0, most=(1 << 63) - 1)


def _check_numbers(what: str, *values: tuple[str, int], least: int, most: int) -> None:
    for name, value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise errors.ConfigurationError(f"{what}: {name} is a whole number from {least} to {most}, not {shown(value)}")


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A kept command, running or ended, as `ISandbox.processes` lists it."""

    id: int
    """What `ISandbox.attach` takes. It names this command and no other as long as the sandbox lives."""
    pid: int | None
    """As the sandbox sees it; ``None`` when it did not start."""
    command: str
    """Its arguments with spaces between them, at most 255 bytes of them. Written inside: it may hold anything, also what a
    terminal obeys."""
    running: bool
    exit_code: int | None
    """As in `ExecResult`; ``None`` while it runs."""
    signal: int | None
    fault: Fault | None
    started_at: datetime
    """By this host's clock now and the sandbox's count of time since."""
    terminal: bool
    written: Offsets
    """How many bytes of each stream there have been."""
    first: Offsets
    """The oldest byte of each stream that is still kept."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry, not followed when it is a link."""

    path: str
    """As asked for; in a listing, the directory's path joined with the name."""
    name: str
    kind: FileKind
    size: int
    """Bytes."""
    mode: int
    """Permission bits, e.g. ``0o644``."""
    mtime: float
    """Seconds since the epoch."""
    uid: int
    gid: int
    target: str | None = None
    """Where a symbolic link points, as written in it."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """How far an upload or download is; its result when it has come to its end."""

    files: int
    """Regular files moved."""
    bytes: int
    """Bytes of them."""
    total_files: int
    total_bytes: int
    """As their sizes said before they were read; a file that changed meanwhile moves another number of bytes."""
    skipped: tuple[str, ...] = field(default=(), repr=False)
    """Paths in the tree that were left out, with ``unsafe="skip"``."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """A moment of a sandbox, seen from outside it."""

    processes: int
    cpu_time: float
    """CPU seconds of the processes alive now."""
    memory: int
    """Resident bytes of the processes alive now; pages shared between them count more than once."""


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """What was really made."""

    id: str
    backend: str
    isolation: Isolation
    workspace: str
    """Absolute path of the workspace as commands see it."""
    created_at: datetime
    capabilities: Capabilities
    quotas: Quotas
    layers: Mapping[str, str] = field(default_factory=dict)
    """Mechanism -> ``enforced`` or ``absent (why)``."""
    waived: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", MappingProxyType(dict(self.layers)))
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy does not pickle.
        values = [getattr(self, f.name) for f in fields(self)]
        return (SandboxInfo, tuple(dict(value) if isinstance(value, MappingProxyType) else value for value in values))


@dataclass(frozen=True, slots=True)
class SandboxSummary:
    """One line of `list_sandboxes`: what is known of a sandbox without a connection to it."""

    id: str
    backend: str
    state: SandboxState
    """``running``; ``ended``, and kept in mind for a while; ``elsewhere``: of another machine or pid namespace that shares the
    state directory, where nobody can tell from here whether it lives."""
    detached: bool
    created_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    owner_pid: int | None = None
    """The process whose end is the sandbox's; ``None`` for a detached one."""
    expires_at: datetime | None = None
    """When its lifetime ends, as far as that is known here: an estimate, which a renewal or a jump of the clock changes."""
    leftovers: bool = False
    """It has ended, and nobody has removed yet what it left: `reap` would."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))

    def __reduce__(self) -> tuple[object, ...]:
        return (_summary, ({f.name: _picklable(getattr(self, f.name)) for f in fields(self)},))


def _summary(values: dict[str, Any]) -> SandboxSummary:
    return SandboxSummary(**values)


def _picklable(value: object) -> object:
    return dict(value) if isinstance(value, MappingProxyType) else value


@dataclass(frozen=True, slots=True)
class ReapReport:
    """What `reap` removed: names of sandboxes, directories and control groups whose owners are gone, sorted."""

    removed: tuple[str, ...] = ()
