"""Each quota hit in a sandbox: what a command got that wanted more. Bounded to seconds; every sandbox is closed again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from isandbox.errors import SandboxError, UnsupportedError
from isandbox.policy import Quotas

if TYPE_CHECKING:
    from isandbox.policy import Capabilities
    from isandbox.records import ExecResult
    from isandbox.sync import ISandbox

Verdict = Literal["enforced", "watched", "unsupported", "not enforced", "not measured"]

_TIMEOUT = 20  # seconds; the longest takes one
_KIB, _MIB = 1 << 10, 1 << 20
_NO_PROGRAM = (126, 127)


@dataclass(frozen=True, slots=True)
class Measured:
    """One quota. ``asked`` and ``reached``, what a command got that wanted more, are in its ``unit``; ``None`` where there is no
    figure. ``not enforced``: the command got all that it wanted.
    """

    name: str
    state: Verdict
    asked: float | None = None
    reached: float | None = None
    unit: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """``control`` wants less than the quota and must get it; ``hit`` wants more. ``reached``: the figure, from the result of
    ``hit`` and the output of ``control``.
    """

    name: str
    asked: float
    unit: str
    control: str
    hit: str
    reached: Callable[[ExecResult], float | None]
    wanted: float


def _last_number(result: ExecResult) -> float | None:
    words = [word for word in result.stdout.split() if word.isascii() and word.isdecimal()]
    return int(words[-1]) if words else None


def _cpus() -> int:
    """Those that this process may use, which a sandbox cannot have more of."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_MANY = 'set --; while [ $# -lt {count} ]; do set -- "$@" /dev/null; done; paste "$@"'
# paste opens all its files at once, beside the three standard descriptors.
_ONE_MORE = '; while [ $# -lt 64 ] && paste "$@" 2>/dev/null; do set -- "$@" /dev/null; done; echo $(($# + 2))'

PROBES = (
    Probe(
        "memory", 64 * _MIB, "bytes",
        "dd if=/dev/zero of=/dev/null bs=8388608 count=1",
        "exec dd if=/dev/zero of=/dev/null bs=268435456 count=1",
        lambda result: result.max_rss, 256 * _MIB,
    ),
    Probe(
        "pids", 16, "processes", "true & wait",
        "i=1; while [ $i -lt 64 ]; do sleep 3 >/dev/null 2>&1 & i=$((i+1)); echo $i; done", _last_number, 64,
    ),
    Probe(
        "disk", _MIB, "bytes", "dd if=/dev/zero of=small bs=65536 count=1",
        "rm small; dd if=/dev/zero of=full bs=65536 count=64; wc -c < full", _last_number, 4 * _MIB,
    ),
    Probe(
        "file_size", 64 * _KIB, "bytes", "dd if=/dev/zero of=small bs=16384 count=2",
        "dd if=/dev/zero of=large bs=16384 count=16; wc -c < large", _last_number, 256 * _KIB,
    ),
    Probe(
        "open_files", 32, "descriptors", _MANY.format(count=16), _MANY.format(count=16) + _ONE_MORE, _last_number, 64
    ),
    Probe("cpu_time", 0.3, "seconds", "true", "while :; do :; done", lambda result: result.cpu_time, _TIMEOUT),
    Probe(
        "output", 64 * _KIB, "bytes", "head -c 1024 /dev/zero", "exec head -c 1073741824 /dev/zero",
        lambda result: len(result.stdout_bytes) + result.omitted.stdout, 1024 * _MIB,
    ),
    Probe("cpus", 1, "CPUs", "true", "nproc", _last_number, _cpus()),
)  # fmt: skip


def measure(type_: str, capabilities: Capabilities) -> Iterator[Measured]:
    """One for each quota, as it is found. Never raises for what a backend does."""
    for probe in PROBES:
        entry = capabilities.quota(probe.name)
        if entry.kind == "unsupported":
            yield Measured(probe.name, "unsupported", detail=entry.instead)
            continue
        kind: Verdict = "watched" if entry.kind == "watched" else "enforced"
        try:
            yield _in_a_sandbox(type_, probe, kind)
        except UnsupportedError as error:
            yield Measured(probe.name, "unsupported", detail=str(error))
        except (SandboxError, OSError) as error:
            yield Measured(probe.name, "not measured", detail=str(error))


def _in_a_sandbox(type_: str, probe: Probe, kind: Verdict) -> Measured:
    from isandbox.sync import create_sandbox

    asked: Any = probe.asked if probe.name == "cpu_time" else int(probe.asked)
    with create_sandbox(type_, quotas=Quotas(**{probe.name: asked})) as sandbox:
        control = _exec(sandbox, probe.control)
        return judge(probe, kind, control, _exec(sandbox, probe.hit))


def _exec(sandbox: ISandbox, line: str) -> ExecResult:
    return sandbox.exec(["sh", "-c", line], timeout=_TIMEOUT)


def judge(probe: Probe, kind: Verdict, control: ExecResult, result: ExecResult) -> Measured:
    """What the two results say. The control has to succeed: where everything is refused, nothing is known of a limit."""
    if not control.ok:
        why = f"the control ended with {control.fault or control.exit_code}: {control.stderr.strip()[:200]}"
        return Measured(probe.name, "not measured", probe.asked, unit=probe.unit, detail=why)
    reached = probe.reached(result)
    if result.exit_code in _NO_PROGRAM and result.fault is None:
        return Measured(probe.name, "not measured", probe.asked, unit=probe.unit, detail=result.stderr.strip()[:200])
    if probe.wanted <= probe.asked:
        return Measured(probe.name, "not measured", probe.asked, unit=probe.unit, detail="this machine has no more of them")
    told = result.fault or ", ".join(sorted(result.limits_hit))
    detail = f"told as {told}" if told else ""
    over = reached is None or reached >= probe.wanted or result.fault == "timeout"
    return Measured(probe.name, "not enforced" if over else kind, probe.asked, reached, probe.unit, "" if over else detail)
