"""When a detached sandbox ends, whom its end spares, and that nothing is left of it."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import psutil
import pytest

from isandbox.testing.contract.base import in_time, within
from isandbox_backends._shared.answers import decode_status
from isandbox_backends._shared.plan import Life
from isandbox_backends._shared.protocol import Question
from isandbox_backends._shared.requests import encode_kill

from .conftest import soon

pytestmark = pytest.mark.native

SHUTDOWN, LIFETIME, IDLE = 1, 2, 3


def test_before_the_release_the_creator_s_end_is_the_sandbox_s(detach: Any) -> None:
    """A creator that is killed half-way leaves nothing, also where somebody else is connected."""
    sandbox = detach(release=False)
    other = sandbox.connect()
    command = other.start("sleep", "600")
    sandbox.creator.socket.close()
    assert other.hear_out()[1:] == []
    assert command.replies() == []
    os.close(command.out)
    assert sandbox.gone()


def test_after_the_release_it_lives_on(detach: Any) -> None:
    """The creator's end takes its own commands along and nothing else; it can be reached again, by nobody's number."""
    sandbox = detach()
    command = sandbox.creator.start("sleep", "600")
    sandbox.creator.socket.close()
    replies = command.replies()
    os.close(command.out)
    assert replies[-1].fault == "cancelled"  # type: ignore[union-attr]
    later = sandbox.connect()
    assert later.hello().client == 1
    assert decode_status(later.ask(Question.STATUS)).clients == 1
    assert sandbox.alive()


def test_nothing_of_it_is_the_host_s_child(detach: Any) -> None:
    """The launcher ends at once; no process of the sandbox is a child of its creator, so that none becomes a zombie there."""
    sandbox = detach()
    me = psutil.Process()
    assert not {sandbox.pid, sandbox.door, sandbox.launcher} & {child.pid for child in me.children(recursive=True)}
    assert not psutil.pid_exists(sandbox.launcher)
    if sandbox.backend == "seccomp":
        assert psutil.Process(sandbox.pid).ppid() == sandbox.door
        # The launcher that made the first process was the doorkeeper's child too, and ends on its own.
        assert soon(lambda: [child.pid for child in psutil.Process(sandbox.door).children()] == [sandbox.pid])


@pytest.mark.parametrize("whom", ["door", "pid"])
def test_either_process_s_end_is_the_end_of_all(detach: Any, whom: str) -> None:
    """By SIGKILL: connections end, no command is left, the lock is free."""
    sandbox = detach()
    other = sandbox.connect()
    command = other.start("sh", "-c", "echo $$; sleep 600")
    assert os.read(command.out, 20)
    inside = psutil.Process(sandbox.pid).children(recursive=True)
    assert len(inside) >= 2  # a keeper and its command
    os.kill(getattr(sandbox, whom), signal.SIGKILL)
    other.hear_out()
    assert sandbox.gone()
    psutil.wait_procs(inside, timeout=30)
    assert not [process for process in inside if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    os.close(command.out)
    os.close(command.status)


def test_the_end_of_its_lifetime(detach: Any) -> None:
    """Everybody hears why; a command that runs is no reason to go on."""

    def begin(lifetime: float) -> Any:
        with within(lifetime):
            sandbox = detach(Life(lifetime_ms=int(lifetime * 1000)))
            other = sandbox.connect()
            return sandbox, other, other.start("sleep", "600")

    sandbox, other, command = in_time(begin)
    assert (other.farewell(), sandbox.creator.farewell()) == (LIFETIME, LIFETIME)
    assert command.replies() == []
    os.close(command.out)
    assert sandbox.gone()


def test_a_lifetime_can_be_renewed(detach: Any) -> None:
    """From now on, longer or shorter; the answer says how long it is."""

    def begin(lifetime: float) -> Any:
        with within(lifetime):
            sandbox = detach(Life(lifetime_ms=int(lifetime * 1000)))
            return sandbox, sandbox.creator.ask(Question.RENEW, 500_000), lifetime

    sandbox, answer, lifetime = in_time(begin)
    status = decode_status(answer)
    assert status.lifetime_left is not None
    assert 400 < status.lifetime_left <= 500
    time.sleep(lifetime + 0.2)
    assert sandbox.alive()
    sandbox.creator.ask(Question.RENEW, 1)
    assert sandbox.creator.farewell() == LIFETIME
    assert sandbox.gone()


def test_the_end_of_an_idle_sandbox(detach: Any) -> None:
    """A client that is merely connected is no use of it."""

    def begin(idle: float) -> Any:
        with within(idle):
            sandbox = detach(Life(lifetime_ms=600_000, idle_ms=int(idle * 1000)))
            return sandbox, sandbox.connect()

    sandbox, client = in_time(begin)
    assert client.farewell() == IDLE
    assert sandbox.gone()


def test_a_sandbox_in_use_is_not_idle(detach: Any) -> None:
    """Neither while a command runs nor while somebody asks something; the time begins with the last of both."""

    def use(idle: float) -> Any:
        with within(idle):
            client = detach(Life(lifetime_ms=600_000, idle_ms=int(idle * 1000))).connect()
            command = client.start("sleep", str(idle * 1.4))
        assert command.replies()[-1].wait_status == 0
        os.close(command.out)
        for _ in range(6):
            with within(idle):
                time.sleep(idle / 4)
                assert decode_status(client.ask(Question.STATUS)).idle_timeout == idle
        return client

    assert in_time(use).farewell() == IDLE


def test_a_doorkeeper_that_is_stopped_for_a_while(detach: Any) -> None:
    """Commands go on meanwhile, and clients that came in that time are let in afterwards."""
    sandbox = detach()
    os.kill(sandbox.door, signal.SIGSTOP)
    late = sandbox.knock()
    if sandbox.backend == "seccomp":
        command = sandbox.creator.start("echo", "on")
        assert command.output() == b"on\n"
        command.replies()
    os.kill(sandbox.door, signal.SIGCONT)
    assert late.hello().client == 1


def test_a_kill_by_a_number_that_is_no_fault_means_nothing(detach: Any) -> None:
    """No client can have a command's end told otherwise than it was."""
    sandbox = detach()
    command = sandbox.creator.start("sleep", "600")
    for number in (0, 7, 0xFFFFFFFF):
        sandbox.creator.send(encode_kill(1, "killed")[:12] + number.to_bytes(4, "little"))
    assert decode_status(sandbox.creator.ask(Question.STATUS)).commands == 1
    sandbox.creator.send(encode_kill(1, "cancelled"))
    assert command.replies()[-1].fault == "cancelled"  # type: ignore[union-attr]
    os.close(command.out)


def test_no_command_has_a_descriptor_of_the_sandbox_s(detach: Any) -> None:
    """Neither a command nor its keeper holds the door, the lock, the note or anybody's connection; the server has all of them."""
    sandbox = detach()
    other = sandbox.connect()
    command = other.start("sh", "-c", "ls /proc/self/fd; echo up; sleep 600")
    listed = b""
    while b"up" not in listed:
        listed += os.read(command.out, 1000)
    assert listed.split() == [b"0", b"1", b"2", b"3", b"up"]  # 3: the listing's own
    server = psutil.Process(sandbox.pid)
    (keeper,) = (child for child in server.children() if child.name() == "isandbox-keeper")
    if os.geteuid() == 0:  # neither is dumpable: it is root's business what they have
        # Its status pipe. It closes the command's own a moment after that has begun.
        assert soon(lambda: os.listdir(f"/proc/{keeper.pid}/fd") == ["3"]), os.listdir(f"/proc/{keeper.pid}/fd")
        assert {"4", "7", "8", "9"} <= set(os.listdir(f"/proc/{server.pid}/fd"))
    other.send(encode_kill(1, "killed"))
    command.replies()
    os.close(command.out)


def test_the_doorkeeper_has_given_up_what_it_could(detach: Any) -> None:
    """No capability, no new privileges, a filter, a session of its own and a directory that keeps nothing mounted."""
    sandbox = detach()
    if sandbox.backend != "seccomp":
        return
    with open(f"/proc/{sandbox.door}/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    assert status["Name"] == "isandbox-door"
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert os.getsid(sandbox.door) == sandbox.door
    if os.geteuid() == 0:  # not dumpable: it is root's business what it has
        assert os.readlink(f"/proc/{sandbox.door}/cwd") == "/"
        assert len(os.listdir(f"/proc/{sandbox.door}/fd")) == 6  # /dev/null three times, the door, the lock, the first process


@pytest.mark.parametrize("missing", [7, 8, 9])
@pytest.mark.parametrize("backend", ["seccomp", "local"])
def test_a_detached_sandbox_without_its_descriptors_is_refused(start_detached: Any, backend: str, missing: int) -> None:
    """Before anything is made, with a reason."""
    failed = start_detached(backend, Life(lifetime_ms=1000), given={7, 8, 9} - {missing})
    assert (failed.stage, failed.subject) == ("door", "a descriptor is missing")


@pytest.mark.parametrize("backend", ["seccomp", "local"])
@pytest.mark.parametrize("life", [None, Life(idle_ms=1000)])
def test_a_detached_sandbox_without_an_end_is_refused(start_detached: Any, backend: str, life: Life | None) -> None:
    """An idle time-out alone is none: a command that never ends would keep it off."""
    failed = start_detached(backend, life, given={7, 8, 9})
    assert (failed.stage, failed.subject) == ("plan", "detached, and without an end")
