"""One probe from beginning to end: what each ending is called, and what is closed."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from isandbox import ConfigurationError, ExecResult, SandboxError, SandboxLostError
from isandbox.testing.containment import Arena, Verdict, host, judge, run_probe
from isandbox.testing.containment.run import audit

REFUSED = {"out": {"a": "EPERM"}, "controls": {"c": "ok"}}


async def plain(arena: Arena) -> Verdict:
    out, controls = await arena.attack("")
    return judge(out, controls)


async def test_a_refusal(answering: Any, as_probe: Any) -> None:
    """A probe that is refused is BLOCKED, its sandbox closed and its files gone."""
    kept: list[Path] = []

    async def attempt(arena: Arena) -> Verdict:
        kept.extend([arena.plant("secret")[0], arena.directory()])
        return await plain(arena)

    target = answering(**REFUSED)
    found = await run_probe(as_probe(attempt), target)
    assert (found.outcome, found.probe, found.group) == ("BLOCKED", "A00", "filesystem")
    assert target.closed == len(target.made) == 1
    assert not any(path.exists() for path in kept)


async def test_what_is_not_claimed_is_not_tried(answering: Any, as_probe: Any) -> None:
    """Without the claim no sandbox is made."""
    target = answering(**REFUSED)
    target.capabilities = type(target.capabilities)(isolation="none")
    found = await run_probe(as_probe(plain), target)
    assert (found.outcome, target.made) == ("NOT-PROVIDED", [])
    assert "files" in found.detail


SAID = {
    "stdout": lambda secret: ExecResult(0, stdout_bytes=secret + b'\n{"out": {"a": "EPERM"}, "controls": {"c": "ok"}}'),
    "stderr": lambda secret: ExecResult(
        0, stderr_bytes=secret.hex().encode(), stdout_bytes=b'{"out":{"a":"EPERM"},"controls":{"c":"ok"}}'
    ),
    "start_error": lambda secret: ExecResult(127, start_error=f"no such file: {secret.decode()}"),
    "half in each stream": lambda secret: ExecResult(1, stdout_bytes=secret[:20], stderr_bytes=secret[20:]),
    "an error's text": lambda secret: SandboxLostError(f"died with {secret.decode()}"),
}


@pytest.mark.parametrize("where", SAID)
async def test_a_canary_anywhere_is_a_leak(scripted: Any, as_probe: Any, where: str) -> None:
    """A canary that comes back in any channel outweighs every refusal."""
    secret = b""

    async def attempt(arena: Arena) -> Verdict:
        nonlocal secret
        secret = arena.plant("secret")[1].encode()
        return await plain(arena)

    found = await run_probe(as_probe(attempt), scripted(lambda command: SAID[where](secret)))
    assert found.outcome == "LEAK"
    assert "came back" in found.detail


async def change_a_file(arena: Arena) -> None:
    arena.plant("secret")[0].write_text("other")


async def add_a_file(arena: Arena) -> None:
    arena.plant("secret")
    (arena.planted / "new").touch()


async def link_a_file(arena: Arena) -> None:
    os.link(arena.plant("secret")[0], arena.directory() / "link")


async def touch_a_file(arena: Arena) -> None:
    os.utime(arena.plant("secret")[0], (1, 1))


async def make_and_remove(arena: Arena) -> None:
    arena.plant("inner/secret")
    (arena.planted / "inner" / "new").touch()
    (arena.planted / "inner" / "new").unlink()


@pytest.mark.parametrize("change", [change_a_file, add_a_file, link_a_file, touch_a_file, make_and_remove])
async def test_a_host_that_changed_is_a_leak(answering: Any, as_probe: Any, change: Any) -> None:
    """Whatever becomes of the planted files is seen: content, names, links, times."""

    async def attempt(arena: Arena) -> Verdict:
        await change(arena)
        return await plain(arena)

    found = await run_probe(as_probe(attempt), answering(**REFUSED))
    assert (found.outcome, found.detail[:16]) == ("LEAK", "the host changed")


@pytest.mark.parametrize(("times", "outcome"), [(1, "BLOCKED"), (2, "LEAK")])
async def test_what_others_do_once_is_not_the_probes(
    answering: Any, as_probe: Any, monkeypatch: pytest.MonkeyPatch, times: int, outcome: str
) -> None:
    """A mount that comes meanwhile may be another program's: the probe is tried again, and what comes again is its own."""
    monkeypatch.setattr(host, "SETTLING", 0.0)
    table, tried = "1 1 0:1 / / rw - tmpfs tmpfs rw\n", 0
    read = host._read

    async def attempt(arena: Arena) -> Verdict:
        nonlocal table, tried
        tried += 1
        if tried <= times:
            table += f"{tried + 1} 1 0:2 / /container rw - tmpfs tmpfs rw\n"  # in one place: a second mount all the same
        return await plain(arena)

    monkeypatch.setattr(host, "_read", lambda path: table if path == "/proc/self/mountinfo" else read(path))
    found = await run_probe(as_probe(attempt), answering(**REFUSED))
    assert (found.outcome, tried) == (outcome, 2)


async def test_a_setting_that_was_changed_once_is_a_leak(
    answering: Any, as_probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe that sets something of the kernel changes it the first time only: that time counts."""
    monkeypatch.setattr(host, "SETTLING", 0.0)
    pattern, read = "core", host._read

    async def attempt(arena: Arena) -> Verdict:
        nonlocal pattern
        pattern = "|/escape"
        return await plain(arena)

    monkeypatch.setattr(host, "_read", lambda path: pattern if path == "/proc/sys/kernel/core_pattern" else read(path))
    found = await run_probe(as_probe(attempt), answering(**REFUSED))
    assert (found.outcome, "|/escape" in found.detail) == ("LEAK", True)


async def test_a_new_listener_is_a_leak(
    answering: Any, as_probe: Any, closed_afterwards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What listens in this process after a probe, and did not before, is told."""
    monkeypatch.setattr(host, "SETTLING", 0.0)

    async def attempt(arena: Arena) -> Verdict:
        server = socket.create_server(("127.0.0.1", 0))
        closed_afterwards.append(server)
        return await plain(arena)

    found = await run_probe(as_probe(attempt), answering(**REFUSED))
    assert found.outcome == "LEAK"
    assert "listeners" in found.detail


async def test_no_answer_is_a_leak(answering: Any, as_probe: Any) -> None:
    """A probe that does not come to an end in its time is a leak, and its sandbox is closed."""

    async def attempt(arena: Arena) -> Verdict:
        await arena.box()
        await asyncio.Event().wait()
        raise AssertionError

    target = answering()
    found = await run_probe(as_probe(attempt, timeout=0.05), target)
    assert (found.outcome, target.closed) == ("LEAK", 1)
    assert "no answer" in found.detail


async def test_a_close_that_hangs_is_a_leak(answering: Any, as_probe: Any) -> None:
    """A sandbox that does not end is told, whatever the probe found, and does not hold up the others."""

    async def attempt(arena: Arena) -> Verdict:
        arena.stack.push_async_callback(asyncio.Event().wait)
        return await plain(arena)

    first, second = await audit(answering(**REFUSED), [as_probe(attempt, timeout=0.05), as_probe(plain)])
    assert (first.outcome, second.outcome) == ("LEAK", "BLOCKED")
    assert "not closed" in first.detail


async def test_a_time_out_of_the_probes_own(answering: Any, as_probe: Any) -> None:
    """A TimeoutError that is not the probe's end is an error like others."""

    async def attempt(arena: Arena) -> Verdict:
        raise TimeoutError("a peer did not answer")

    found = await run_probe(as_probe(attempt), answering())
    assert (found.outcome, found.detail) == ("VACUOUS", "TimeoutError: a peer did not answer")


async def test_an_option_that_is_not_there(answering: Any, as_probe: Any) -> None:
    """A sandbox that a target cannot make is NOT-PROVIDED, with its words."""

    async def attempt(arena: Arena) -> Verdict:
        await arena.create(mounts=[])
        raise AssertionError

    found = await run_probe(as_probe(attempt), answering(refuses=frozenset({"mounts"})))
    assert (found.outcome, "not here" in found.detail) == ("NOT-PROVIDED", True)


UNUSABLE = {
    "no answer": {"stdout_bytes": b"hello"},
    "a bad end": {"exit_code": 1, "stderr_bytes": b"Traceback"},
    "no python": {"exit_code": 127, "start_error": "python3: not found"},
    "ended from outside": {"exit_code": 137, "signal": 9, "fault": "oom"},
}


@pytest.mark.parametrize("ending", UNUSABLE)
async def test_an_unusable_answer_proves_nothing(answering: Any, as_probe: Any, ending: str) -> None:
    """A program that did not run, fell over or said something else makes the probe vacuous, with a reason."""
    found = await run_probe(as_probe(plain), answering(**UNUSABLE[ending]))
    assert found.outcome == "VACUOUS"
    assert found.detail


@pytest.mark.parametrize("error", [SandboxLostError("gone"), OSError(5, "no"), ConfigurationError("bad")])
async def test_errors_of_the_sandbox_are_findings(scripted: Any, as_probe: Any, error: Exception) -> None:
    """A sandbox that is lost under an attack, or has an error for an answer, did not hold; it does not end the audit."""
    first, second = await audit(scripted(lambda command: error), [as_probe(plain), as_probe(plain)])
    assert (first.outcome, second.outcome) == ("LEAK", "LEAK")
    assert first.detail.startswith(type(error).__name__)


async def test_a_sandbox_that_does_not_start(answering: Any, as_probe: Any) -> None:
    """Where there was no sandbox there was no attack: nothing is proven."""

    async def attempt(arena: Arena) -> Verdict:
        raise SandboxError("the sandbox did not start")

    found = await run_probe(as_probe(attempt), answering())
    assert (found.outcome, found.detail) == ("VACUOUS", "SandboxError: the sandbox did not start")


async def test_a_fault_of_the_probe_comes_out(answering: Any, as_probe: Any) -> None:
    """An error in a probe's own code is no verdict; its sandbox is closed all the same."""

    async def attempt(arena: Arena) -> Verdict:
        await arena.box()
        raise KeyError("typo")

    target = answering()
    with pytest.raises(KeyError):
        await run_probe(as_probe(attempt), target)
    assert target.closed == 1


async def test_cancelling_closes(answering: Any, as_probe: Any) -> None:
    """A cancelled probe closes its sandbox and removes its files."""
    started, kept = asyncio.Event(), list[Path]()

    async def attempt(arena: Arena) -> Verdict:
        await arena.box()
        kept.append(arena.planted)
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    target = answering()
    task = asyncio.ensure_future(run_probe(as_probe(attempt), target))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert target.closed == 1
    assert not kept[0].exists()


async def test_figures_and_long_details(answering: Any, as_probe: Any) -> None:
    """Figures come with the finding, also of a leak; details are cut and printable."""

    async def attempt(arena: Arena) -> Verdict:
        return Verdict("LEAK", detail="\x1b" + "x" * 1000, figures={"n": 3})

    found = await run_probe(as_probe(attempt), answering())
    assert (dict(found.figures), found.detail[:2], len(found.detail)) == ({"n": 3}, "?x", 400)
