"""Moments in which a detached sandbox, or a call that has to do with it, is half there."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isandbox import (
    BackendUnavailableError,
    SandboxBusyError,
    SandboxClosedError,
    SandboxLostError,
    SandboxNotFoundError,
    StateError,
    create_sandbox,
    sync,
)
from isandbox._state.register import Register
from isandbox.sandbox import ISandbox
from isandbox.policy import Quotas
from isandbox_backends._shared.asking import ask_blocking
from isandbox_backends._shared.detached import core as detached_core
from isandbox_backends._shared.detached import making
from isandbox_backends._shared.detached.connection import Connection, TurnedAwayError
from isandbox_backends._shared.detached.starting import DetachedStart
from isandbox_backends._shared.plan import Hostname, Record
from isandbox_backends._shared.protocol import Question

from .conftest import LIFETIME, entered, eventually, leftovers, reaped, states

pytestmark = pytest.mark.native
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no control groups here")


def make(backend: str, **options: object) -> sync.ISandbox:
    return sync.create_sandbox(backend, detached=True, **{"lifetime": LIFETIME, **options})  # type: ignore[arg-type]


def test_a_first_process_that_fails_before_it_is_looked_at(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine so busy that it has ended by then, its own reason comes out all the same."""
    plan_of, wait_of = making.detached_plan, DetachedStart.wait_ready

    def broken(plan: list[Record]) -> list[Record]:
        return [replace(record, name="x" * 100) if isinstance(record, Hostname) else record for record in plan_of(plan)]

    def late(start: DetachedStart, deadline: float) -> None:
        time.sleep(0.3)
        wait_of(start, deadline)

    monkeypatch.setattr(making, "detached_plan", broken)
    monkeypatch.setattr(DetachedStart, "wait_ready", late)
    with pytest.raises(BackendUnavailableError, match="hostname"):
        make("seccomp")
    assert entered(state) == []


@NEEDS_ROOT
@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_sandbox_whose_control_group_has_gone(end: str) -> None:
    """Whoever else uses it finds it lost, and who ended it; not that some directory is missing."""
    sandbox = make("seccomp", quotas=Quotas(memory="64MiB"), cgroup="require")
    heard: list[str] = []
    with sync.connect(sandbox.info.id, on_event=lambda event: heard.append(event.kind)) as other:
        assert other.exec(["true"]).ok
        if end == "close":
            sandbox.close()
        else:
            assert sync.kill_sandbox(sandbox.info.id)
            sandbox.detach()
        with pytest.raises(SandboxLostError, match="somebody else has closed it"):
            other.exec(["true"])
        assert heard[-1] == "lost"


def test_turned_away_by_a_sandbox_that_ends(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not found, rather than busy: asking again would never help."""
    sandbox = make(backend)

    def end_first(link: Connection, deadline: float) -> None:
        del deadline
        assert link.pid is not None
        os.kill(link.pid, signal.SIGKILL)
        raise TurnedAwayError

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "wait_ready", end_first)
        with pytest.raises(SandboxNotFoundError, match="has ended"):
            sync.connect(sandbox.info.id)
    sandbox.close()


def test_a_ctrl_c_while_things_are_removed(backend: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes out of close, which leaves nothing all the same."""
    sandbox = make(backend)
    finish, calls = detached_core.finish, [0]

    def interrupted(*arguments: object) -> bool:
        calls[0] += 1
        if calls[0] == 1:
            raise KeyboardInterrupt
        return finish(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(detached_core, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sandbox.close()
    assert leftovers(sandbox.info.id, state) == []
    assert reaped(state) == []


@pytest.mark.parametrize("verb", ["close", "detach", "exec"])
def test_a_fork_while_another_thread_ends_it(backend: str, verb: str) -> None:
    """Whatever lock that thread has, in the child the handle is closed at once."""
    sandbox = make(backend)
    calls: dict[str, Callable[[], object]] = {
        "close": sandbox.close,
        "detach": sandbox.detach,
        "exec": lambda: sandbox.exec(["true"]),
    }
    with sandbox._core._lock:  # type: ignore[attr-defined]
        child = _forked(calls[verb])
    assert child == (1 if verb == "exec" else 0)
    assert sandbox.exec(["true"]).ok
    sandbox.close()


def _forked(call: Callable[[], object]) -> int:
    """Exit code of a child: 1 for `SandboxClosedError`, 0 for a call that returns; 2 when it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, lambda *_: os._exit(2))
        signal.alarm(20)
        try:
            call()
        except SandboxClosedError:
            os._exit(1)
        except BaseException:
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_key_whose_sandbox_takes_no_more_clients(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made, and that is what the error says: it is busy."""
    sandbox = make(backend, idempotency_key="busy")

    def busy(*_: object) -> None:
        raise SandboxBusyError("takes no more clients")

    with monkeypatch.context() as patch:
        patch.setattr(making, "connect", busy)
        with pytest.raises(SandboxBusyError, match="no more clients"):
            make(backend, idempotency_key="busy", start_timeout=0.3)
    sandbox.close()


def test_a_creation_that_is_stopped_in_the_moment_of_its_launch(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that hangs is not waited for until its time is over."""
    attempts: list[making.Attempt] = []
    stopped = threading.Event()
    launch, stop = making.Attempt._launch, DetachedStart.stop

    def launch_and_stop(attempt: making.Attempt, *arguments: object) -> DetachedStart:
        attempts.append(attempt)
        start = launch(attempt, *arguments)  # type: ignore[arg-type]
        attempt.stop()
        return start

    def stop_and_say(start: DetachedStart) -> None:
        stopped.set()
        stop(start)

    monkeypatch.setattr(making.Attempt, "_launch", launch_and_stop)
    monkeypatch.setattr(DetachedStart, "stop", stop_and_say)
    with pytest.raises(Exception, match="did not start"):
        make(backend)
    assert attempts
    assert stopped.is_set()


def test_a_disk_that_fills_while_it_is_made(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a creation that failed is free again with the room, in the same process, although its row could not go."""

    def full(*_: object, **__: object) -> None:
        raise StateError("no room left")

    with monkeypatch.context() as patch:
        patch.setattr(Register, "running", full)
        patch.setattr(Register, "discard", full)
        with pytest.raises(StateError, match="no room"):
            make(backend, idempotency_key="k")
    with make(backend, idempotency_key="k", start_timeout=5) as sandbox:
        assert sandbox.exec(["true"]).ok


def test_a_renewal_that_the_register_has_no_room_for(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox lives longer, so the call succeeds; only the list's estimate is the old one."""

    def full(*_: object, **__: object) -> None:
        raise StateError("no room left")

    with make(backend) as sandbox:
        monkeypatch.setattr(Register, "renewed", full)
        sandbox.renew(10 * LIFETIME)
        core = sandbox._core  # type: ignore[attr-defined]
        left = core.status(ask_blocking(core.client, Question.STATUS)).lifetime_left
        assert LIFETIME < left <= 10 * LIFETIME


@pytest.mark.parametrize("verb", ["processes", "renew", "attach"])
def test_a_loss_that_a_question_finds_out(backend: str, verb: str) -> None:
    """It is told as any other: the error says why, on_event hears of it once."""
    heard: list[str] = []
    sandbox = make(backend, on_event=lambda event: heard.append(event.kind))
    kept = sandbox.start(["sleep", "300"], background=True)
    assert kept.id is not None
    serial = kept.id
    calls: dict[str, Callable[[], object]] = {
        "processes": sandbox.processes,
        "renew": lambda: sandbox.renew(LIFETIME),
        "attach": lambda: sandbox.attach(serial),
    }
    kept.detach()
    assert sync.kill_sandbox(sandbox.info.id)
    for _ in range(2):
        with pytest.raises(SandboxLostError, match="somebody else has closed it"):
            calls[verb]()
    assert heard.count("lost") == 1
    sandbox.close()


@NEEDS_ROOT
def test_groups_of_connections_that_ended() -> None:
    """A process that connects again and again does not fill the sandbox's control group with those of commands that have ended."""
    with make("seccomp", quotas=Quotas(memory="64MiB"), cgroup="require") as sandbox:
        group = sandbox._core.group  # type: ignore[attr-defined]
        first = sync.connect(sandbox.info.id)
        assert first.exec(["true"]).ok
        for _ in range(4):
            with sync.connect(sandbox.info.id) as again:
                again.start(["sleep", "300"])
                kept = again.start(["true"], background=True)
                assert kept.wait().ok

        def left() -> list[str]:
            sync.connect(sandbox.info.id).detach()
            return [name for name in os.listdir(group.directories[0]) if name.startswith("c") and "-" in name]

        assert eventually(lambda: len(left()) == 1), left()
        assert first.exec(["true"]).ok
        first.detach()
        assert left() == []


def test_a_creation_that_is_cancelled_when_it_is_done(backend: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the moment between the end of the work and the handle nobody has it, so that it is destroyed."""
    in_thread = making.in_thread

    async def main() -> None:
        creation = asyncio.ensure_future(_created())

        async def and_cancel(run: Callable[[], Any]) -> Any:
            made = await in_thread(run)
            asyncio.get_running_loop().call_soon(creation.cancel)
            return made

        monkeypatch.setattr(making, "in_thread", and_cancel)
        with pytest.raises(asyncio.CancelledError):
            await creation

    async def _created() -> ISandbox:
        return await create_sandbox(backend, detached=True, lifetime=LIFETIME)

    asyncio.run(main())
    assert "running" not in states(state)
    assert not list((state / "sandboxes").glob("*"))


@pytest.mark.parametrize("name", ["_tell", "BlockingNative"])
def test_a_ctrl_c_before_there_is_a_handle(backend: str, name: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that is registered already, and whose handle nobody will ever have, is destroyed."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(making, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            make(backend)
    gc.collect()
    assert not list((state / "sandboxes").glob("*"))
