"""Moments in which a detached sandbox, or a call that has to do with it, is half there."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from isandbox import SandboxClosedError, SandboxLostError, SandboxNotFoundError, StateError, sync
from isandbox._state.places import Places
from isandbox._state.register import Register
from isandbox.policy import Quotas
from isandbox_backends._shared.asking import ask_blocking
from isandbox_backends._shared.detached import core as detached_core
from isandbox_backends._shared.detached.connection import Connection, TurnedAwayError
from isandbox_backends._shared.protocol import Question

from .conftest import LIFETIME, eventually, leftovers, reaped

pytestmark = pytest.mark.native
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no control groups here")


def make(backend: str, **options: object) -> sync.ISandbox:
    return sync.create_sandbox(backend, detached=True, **{"lifetime": LIFETIME, **options})  # type: ignore[arg-type]


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
        signal.alarm(60)
        try:
            call()
        except SandboxClosedError:
            os._exit(1)
        except BaseException:
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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
        assert eventually(lambda: not left()), left()


def test_killing_what_ends_in_this_moment(backend: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had ended, says the call, and nothing of it is left."""
    sandbox = make(backend)
    look, looks = Places.is_alive, [0]

    def end_it_between(places: Places, id: str) -> bool:
        looks[0] += 1
        if looks[0] == 2:
            sandbox.close()
        return look(places, id)

    monkeypatch.setattr(Places, "is_alive", end_it_between)
    assert sync.kill_sandbox(sandbox.info.id) is False
    assert leftovers(sandbox.info.id, state) == []
