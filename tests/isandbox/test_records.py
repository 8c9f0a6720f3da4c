"""Results and their comfort."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from isandbox import (
    Capabilities,
    ExecCancelledError,
    ExecCpuError,
    ExecFailedError,
    ExecKilledError,
    ExecMemoryError,
    ExecOutputLimitError,
    ExecResult,
    ExecTimeoutError,
    FileInfo,
    Metrics,
    Quotas,
    RunResult,
    SandboxInfo,
)
from isandbox.records import Fault, Omitted, signal_name

MAPPING = {
    "timeout": ExecTimeoutError,
    "oom": ExecMemoryError,
    "cpu": ExecCpuError,
    "output": ExecOutputLimitError,
    "cancelled": ExecCancelledError,
    "killed": ExecKilledError,
}


@pytest.mark.parametrize("fault", get_args(Fault))
@pytest.mark.parametrize("code", [0, 137])
def test_each_fault_has_its_error(fault: Any, code: int) -> None:
    """check() raises exactly one class for each fault, with the result in it, also when the exit code is 0."""
    result = ExecResult(code, fault=fault)
    with pytest.raises(ExecFailedError) as caught:
        result.check()
    assert type(caught.value) is MAPPING[fault]
    assert caught.value.result is result
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (ExecResult(3), "exit code 3"),
        (ExecResult(137, signal=9), "SIGKILL"),
        (ExecResult(127, start_error="nope: No such file or directory"), "did not start: nope"),
    ],
)
def test_a_failure_without_a_fault(result: ExecResult, message: str) -> None:
    """A plain failure is ExecFailedError itself and says what the kernel said."""
    with pytest.raises(ExecFailedError, match=message) as caught:
        result.check()
    assert type(caught.value) is ExecFailedError


def test_success_returns_itself() -> None:
    """check() is for chaining."""
    result = RunResult(0, files={"a": b""})
    assert result.check() is result


@pytest.mark.parametrize(
    ("number", "name"),
    [(9, "SIGKILL"), (15, "SIGTERM"), (11, "SIGSEGV"), (40, "signal 40"), (0, "signal 0"), (-1, "signal -1")],
)
def test_signal_names(number: int, name: str) -> None:
    """A name where there is one."""
    assert signal_name(number) == name


def test_text_is_utf_8_with_replacement() -> None:
    """Bytes that are no text are replaced in the text and kept in the bytes."""
    result = ExecResult(0, stdout_bytes=b"a\xffb", stderr_bytes="é".encode())
    assert (result.stdout, result.stderr, result.stdout_bytes) == ("a\ufffdb", "é", b"a\xffb")


@pytest.mark.parametrize(("omitted", "truncated"), [(Omitted(), False), (Omitted(1, 0), True), (Omitted(0, 1), True)])
def test_truncated(omitted: Omitted, truncated: bool) -> None:
    """One omitted byte of either stream is truncation."""
    assert ExecResult(0, omitted=omitted).truncated is truncated


@pytest.mark.parametrize(
    "record",
    [
        ExecResult(1, 9, "oom", frozenset({"pids"}), b"o", b"e", Omitted(1, 2), True, "why", 1.0, 2.0, 3, ("x",)),
        RunResult(0, files={"out": b"x"}),
        FileInfo("a", "a", "file", 1, 0o644, 1.0, 0, 0),
        Metrics(1, 2.0, 3),
        Quotas(memory="1MiB"),
        SandboxInfo("x-1", "x", "os", "/workspace", datetime.now(UTC), Capabilities("os"), Quotas(), {"a": "enforced"}),
    ],
    ids=lambda record: type(record).__name__,
)
def test_records_pickle(record: Any) -> None:
    """What comes back is plain data and travels to another process."""
    assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301


def test_records_are_frozen() -> None:
    """An answer cannot be changed after the fact."""
    with pytest.raises(AttributeError):
        ExecResult(0).exit_code = 1  # type: ignore[misc]


def test_a_repr_holds_no_output() -> None:
    """Output and files may be large or secret; a repr, which ends up in logs, holds neither."""
    result = RunResult(3, stdout_bytes=b"canary" * 1000, stderr_bytes=b"canary", files={"a": b"canary"})
    assert "canary" not in repr(result)
    assert "exit_code=3" in repr(result)
