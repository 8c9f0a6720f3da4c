"""What is made of a quota that was hit."""

from __future__ import annotations

from typing import Any

import pytest

from isandbox import BackendUnavailableError, ExecResult
from isandbox.cli.doctor import quotas
from isandbox.cli.doctor.quotas import PROBES, Measured, Probe, judge, measure
from isandbox.policy import Capabilities, Enforcement, Quotas

FINE = ExecResult(0)
BY_NAME = {probe.name: probe for probe in PROBES}


def said(number: float) -> ExecResult:
    return ExecResult(0, stdout_bytes=f"{number}\n".encode())


# quota, what the command came to, verdict, figure
TABLE = [
    ("memory", ExecResult(137, signal=9, fault="oom", max_rss=70 << 20), "enforced", 70 << 20),
    ("memory", ExecResult(1, max_rss=2 << 20), "enforced", 2 << 20),
    ("memory", ExecResult(0, max_rss=260 << 20), "not enforced", 260 << 20),
    ("pids", said(15), "enforced", 15),
    ("pids", said(64), "not enforced", 64),
    ("pids", ExecResult(2), "not enforced", None),
    ("disk", said(1 << 20), "enforced", 1 << 20),
    ("file_size", said(256 << 10), "not enforced", 256 << 10),
    ("open_files", said(32), "enforced", 32),
    ("open_files", said(66), "not enforced", 66),
    ("cpu_time", ExecResult(137, fault="cpu", cpu_time=0.35), "enforced", 0.35),
    ("cpu_time", ExecResult(137, fault="timeout", cpu_time=9.0), "not enforced", 9.0),
    ("disk", ExecResult(127, stderr_bytes=b"no dd"), "not measured", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "result", "state", "reached"), TABLE)
def test_verdicts(name: str, result: ExecResult, state: str, reached: float | None) -> None:
    """Below what the command wanted is enforced; all of it, no answer, or a time-out is not; no program is no measurement."""
    found = judge(BY_NAME[name], "enforced", FINE, result)
    assert (found.state, found.reached) == (state, reached)


def test_the_kind_is_the_backends_own() -> None:
    """A quota that is watched and held is told as watched, with what it was told as."""
    found = judge(BY_NAME["cpu_time"], "watched", FINE, ExecResult(137, fault="cpu", cpu_time=0.4))
    assert (found.state, found.asked, found.reached, found.unit, found.detail) == (
        "watched",
        0.3,
        0.4,
        "seconds",
        "told as cpu",
    )


def test_nothing_is_known_without_the_control() -> None:
    """Where a command that wants less than the quota fails too, the failure of the other says nothing."""
    found = judge(BY_NAME["disk"], "enforced", ExecResult(1, stderr_bytes=b"read-only"), said(0))
    assert (found.state, found.reached) == ("not measured", None)
    assert "read-only" in found.detail


def test_a_machine_with_one_cpu() -> None:
    """One CPU of one is no limit."""
    probe = Probe("cpus", 1, "CPUs", "true", "nproc", lambda result: 1, 1)
    assert judge(probe, "enforced", FINE, said(1)).state == "not measured"


def test_what_is_unsupported_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota that the backend refuses has its way out as the detail; an error is told and ends nothing."""

    def fail(*arguments: Any) -> Measured:
        raise BackendUnavailableError("gone")

    monkeypatch.setattr(quotas, "_in_a_sandbox", fail)
    record = Capabilities("none", quotas={"disk": Enforcement("unsupported", instead="do x"), "pids": Enforcement("kernel")})
    found = {one.name: one for one in measure("local", record)}
    assert (found["disk"].state, found["disk"].detail) == ("unsupported", "do x")
    assert (found["pids"].state, found["pids"].detail) == ("not measured", "gone")
    assert set(found) == set(BY_NAME)


@pytest.mark.native
def test_a_quota_that_does_not_hold_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the whole: in sandboxes without these quotas not one is told as held."""
    monkeypatch.setattr(quotas, "Quotas", lambda **asked: Quotas(open_files=4096))
    names = ("memory", "pids", "file_size", "open_files")
    monkeypatch.setattr(quotas, "PROBES", [BY_NAME[name] for name in names])
    record = Capabilities("os", quotas=dict.fromkeys(names, Enforcement("kernel")))
    assert {one.name: one.state for one in measure("seccomp", record)} == dict.fromkeys(names, "not enforced")
