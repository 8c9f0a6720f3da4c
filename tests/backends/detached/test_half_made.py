"""A detached sandbox that is half made: calls that fail, are stopped, or wait for another that makes it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isandbox import BackendUnavailableError, SandboxBusyError, SandboxError, StateError, create_sandbox, sync
from isandbox._state.register import Register
from isandbox.sandbox import ISandbox
from isandbox_backends._shared.detached import making
from isandbox_backends._shared.detached.starting import DetachedStart
from isandbox_backends._shared.plan import Hostname, Record

from .conftest import LIFETIME, entered, eventually, states

pytestmark = pytest.mark.native


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
    with make(backend, idempotency_key="k", start_timeout=60) as sandbox:
        assert sandbox.exec(["true"]).ok


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


def test_a_register_that_is_in_use(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for once: an entry that could not be made is not to be removed either."""
    discarded: list[object] = []

    def busy(*_: object, **__: object) -> None:
        raise StateError("in use by another process for more than 10 s")

    monkeypatch.setattr(Register, "begin", busy)
    monkeypatch.setattr(Register, "discard", lambda *arguments: discarded.append(arguments))
    with pytest.raises(StateError, match="in use"):
        make(backend)
    assert discarded == []


def test_a_key_whose_first_user_fails(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another call that waits for it makes the sandbox: it never was, and nobody is told that it has ended."""
    waits = threading.Event()
    failed: list[str] = []
    make_one, find = making.Attempt._make, making.Attempt._found

    def fail_once(attempt: making.Attempt, *arguments: Any) -> Any:
        if failed:
            return make_one(attempt, *arguments)
        failed.append("once")
        assert waits.wait(60)
        raise SandboxError("no luck")

    def and_say(attempt: making.Attempt, *arguments: Any) -> Any:
        waits.set()
        return find(attempt, *arguments)

    def first() -> None:
        with pytest.raises(SandboxError, match="no luck"):
            make(backend, idempotency_key="k")
        failed.append("told")

    monkeypatch.setattr(making.Attempt, "_make", fail_once)
    monkeypatch.setattr(making.Attempt, "_found", and_say)
    thread = threading.Thread(target=first)
    thread.start()
    assert eventually(lambda: failed)
    with make(backend, idempotency_key="k") as sandbox:
        assert sandbox.exec(["true"]).ok
    thread.join()
    assert failed == ["once", "told"]
