"""`isandbox audit`: the table, the object, the exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from isandbox import BackendUnavailableError
from isandbox.cli import _audit
from isandbox.policy import Capabilities
from isandbox.testing.containment import Finding, Outcome


def finding(outcome: Outcome, id: str = "A01", **figures: int) -> Finding:
    return Finding(id, "a title", "filesystem", outcome, "mount view", "a detail", figures)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``found(findings)``: an audit whose probes find that."""

    class Target:
        name = "fake"
        capabilities = Capabilities(isolation="none")

        def __init__(self, type_: str | None) -> None:
            pass

        async def look(self) -> None:
            pass

    def make(findings: Sequence[Finding]) -> None:
        left = list(findings)

        async def run_probe(probe: Any, target: Any) -> Finding:
            return left.pop(0)

        monkeypatch.setattr(_audit, "BackendTarget", Target)
        monkeypatch.setattr(_audit, "_chosen", lambda only: list(findings))
        monkeypatch.setattr(_audit, "run_probe", run_probe)

    return make


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["BLOCKED"], 0),
        (["CONTAINED", "VACUOUS", "NOT-PROVIDED"], 0),
        (["NOT-PROVIDED"], 0),
        (["BLOCKED", "LEAK"], 1),
        (["VACUOUS", "LEAK"], 1),
        (["VACUOUS"], 125),
        (["VACUOUS", "NOT-PROVIDED"], 125),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_exit_codes(found: Any, capfd: Any, outcomes: list[Outcome], code: int, as_json: bool) -> None:
    """1 for a leak, 125 where nothing of what was tried proved anything, else 0; the same with and without --json."""
    found([finding(outcome) for outcome in outcomes])
    assert _audit.audit_command(None, only=(), as_json=as_json) == code
    assert capfd.readouterr().out


def test_the_table(found: Any, capfd: Any) -> None:
    """A line for each probe with what stopped it or what was found, then the counts, worst first, and the figures."""
    found([finding("BLOCKED"), finding("LEAK", "A14-open", writable_kernel_files=3), finding("CONTAINED", "A02")])
    _audit.audit_command(None, only=(), as_json=False)
    first, second, third, empty, counts, figure = capfd.readouterr().out.splitlines()
    assert re.fullmatch(r"A01 +BLOCKED +a title: mount view", first)
    assert re.fullmatch(r"A14-open +LEAK +a title: a detail", second)
    assert re.fullmatch(r"A02 +CONTAINED +a title: mount view", third)
    assert (empty, counts) == ("", "fake: 1 LEAK, 0 VACUOUS, 0 NOT-PROVIDED, 1 CONTAINED, 1 BLOCKED")
    assert figure == "writable kernel files: 3"


def test_the_object(found: Any, capfd: Any) -> None:
    """With --json one object is all that is printed: type, counts of every outcome, figures, findings."""
    found([finding("BLOCKED", n=0), finding("VACUOUS", "A02")])
    _audit.audit_command(None, only=(), as_json=True)
    said = json.loads(capfd.readouterr().out)
    assert list(said) == ["type", "counts", "figures", "findings"]
    assert said["counts"] == {"LEAK": 0, "VACUOUS": 1, "NOT-PROVIDED": 0, "CONTAINED": 0, "BLOCKED": 1}
    assert (said["type"], said["figures"]) == ("fake", {"n": 0})
    assert said["findings"][1] == {
        "probe": "A02", "title": "a title", "group": "filesystem", "outcome": "VACUOUS", "mechanism": "mount view", "detail": "a detail",
        "figures": {},
    }  # fmt: skip


@pytest.mark.parametrize("as_json", [False, True])
def test_a_backend_that_cannot_run(found: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """125, with the reason: as text, or as an object with the error's code."""
    found([])

    async def look(self: Any) -> None:
        raise BackendUnavailableError("no namespaces here")

    monkeypatch.setattr(_audit.BackendTarget, "look", look)
    assert _audit.audit_command(None, only=(), as_json=as_json) == 125
    out, err = capfd.readouterr()
    assert "no namespaces here" in (json.loads(out)["error"]["message"] if as_json else err)
    assert as_json or out == ""


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), TypeError("a probe's own fault")])
def test_an_audit_that_fails_is_no_leak(found: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Whatever goes wrong in the audit itself ends with 125, never with the code of a leak, and is said on stderr."""
    found([finding("BLOCKED")])

    async def fail(probe: Any, target: Any) -> Finding:
        raise error

    monkeypatch.setattr(_audit, "run_probe", fail)
    assert _audit.audit_command(None, only=(), as_json=False) == 125
    assert error.args[-1] in capfd.readouterr().err


def test_an_interrupt(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is 130, which is not the code of a leak."""
    found([finding("BLOCKED")])

    async def interrupted(probe: Any, target: Any) -> Finding:
        raise KeyboardInterrupt

    monkeypatch.setattr(_audit, "run_probe", interrupted)
    assert _audit.audit_command(None, only=(), as_json=False) == 130


@pytest.mark.parametrize("command", [("audit", "--type", "local", "--only", "A01"), ("doctor", "--json")])
def test_what_cannot_be_printed(command: tuple[str, ...], tmp_path: Path) -> None:
    """A full disk is 125 with a line on stderr, and a closed stdout is /dev/null: no file of the audit's takes its place."""
    program = ["env", "SANDBOX_TYPE=local", sys.executable, "-m", "isandbox", *command]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, timeout=100, check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (125, 1)
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *program]
    done = subprocess.run(closed, stderr=subprocess.PIPE, cwd=tmp_path, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """Whichever signal ends an audit, what it planted is gone, and the exit code says which it was."""
    program = [sys.executable, "-m", "isandbox", "audit", "--type", "local", "--only", "F"]
    audit = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert audit.stdout is not None
    assert audit.stdout.readline()  # the first is done, and the next has begun or begins now
    audit.send_signal(number)
    _, errors = audit.communicate(timeout=100)
    assert (audit.returncode, errors) == (128 + number, b"")
    assert list(tmp_path.iterdir()) == []


def test_the_local_backend(isandbox: Any) -> None:
    """What local claims holds, the rest is NOT-PROVIDED: it never looks stronger than it is."""
    done = isandbox("audit", "--type", "local", "--only", "A", "--json")
    said = json.loads(done.stdout)
    held = {one["probe"] for one in said["findings"] if one["outcome"] in ("BLOCKED", "CONTAINED")}
    assert (done.returncode, said["type"], held) == (0, "local", {"A04-inherited", "A23"})
    assert {one["outcome"] for one in said["findings"]} == {"NOT-PROVIDED", "BLOCKED"}
    assert said["figures"]["inherited_descriptors"] == 0


def test_only(isandbox: Any) -> None:
    """--only takes the beginning of an id, in any letters, and more than once; one that fits no probe is wrong usage."""
    done = isandbox("audit", "--type", "local", "--json", "--only", "a23", "--only", "a04-INH", "--only", "A08-d")
    assert [one["probe"] for one in json.loads(done.stdout)["findings"]] == ["A04-inherited", "A08-deny", "A23"]
    done = isandbox("audit", "--only", "A23", "--only", "Z")
    assert done.returncode == 2
    assert b"--only Z" in done.stderr


@pytest.mark.parametrize("type_", ["no-such-type"])
def test_an_unknown_type(isandbox: Any, type_: str) -> None:
    """A backend that is not there is 125 with the list of those that are, not a traceback."""
    done = isandbox("audit", "--type", type_)
    assert done.returncode == 125
    assert b"seccomp" in done.stdout + done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_nobody_reads(program: str, arguments: list[str]) -> None:
    """A reader that went away ends the audit with 141 and without a traceback."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [program, "audit", "--type", "local", "--only", "A23", *arguments],
            stdout=write, stderr=subprocess.PIPE, check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
