"""A Ctrl-C at any moment of a blocking call: the call ends with it, and the sandbox is as it was."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from isandbox.sync import create_sandbox
from isandbox.sync.sandbox import ISandbox

pytestmark = pytest.mark.native

# Where what a command reports is taken in. A report that is lost looks like the death of the sandbox's first process.
WHERE = ("blocking.py", "exchange.py", "protocol.py")


class CtrlC:
    """Raises `KeyboardInterrupt` at the n-th point where the interpreter looks for signals: a call begins or C code returns."""

    def __init__(self, number: int, where: tuple[str, ...] = WHERE) -> None:
        self.left, self.where = number, where

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        del argument
        directory, name = os.path.split(frame.f_code.co_filename)
        ours = directory.endswith("_shared") or frame.f_code.co_name == "detach"  # of a socket, which hands over its number
        if event in ("call", "c_return") and name in self.where and ours:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


VERBS: dict[str, Callable[[ISandbox], Any]] = {
    "exec": lambda sandbox: sandbox.exec(["true"]),
    "stat": lambda sandbox: sandbox.stat("f"),
    "write": lambda sandbox: sandbox.write("f", iter([b"x" * 100])),
    "read": lambda sandbox: list(sandbox.read_chunks("f")),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_ctrl_c_costs_no_sandbox(verb: str) -> None:
    """Wherever it comes, while a result is awaited and taken in."""
    call = VERBS[verb]
    with create_sandbox("local") as sandbox:
        sandbox.write("f", b"content")
        interrupted = 0
        for number in range(1, 1000):
            point = CtrlC(number)
            sys.setprofile(point)
            try:
                call(sandbox)
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                sys.setprofile(None)
            assert sandbox.exec(["echo", "here"]).stdout == "here\n", f"after an interruption at point {number}"
            if point.left > 0:
                break
        assert interrupted > 20, "the points were there"


def test_who_waits_again_gets_the_result() -> None:
    """A wait that a Ctrl-C broke off while the end was taken in can be repeated."""
    with create_sandbox("local") as sandbox:
        for number in range(1, 200):
            process = sandbox.start("echo out; exit 3")
            point = CtrlC(number)
            sys.setprofile(point)
            try:
                process.wait()
            except KeyboardInterrupt:
                pass
            finally:
                sys.setprofile(None)
            result = process.wait()
            assert result.exit_code == 3, f"after an interruption at point {number}: {result}"
            if point.left > 0:
                return
    pytest.fail("every wait was interrupted")


def test_a_real_signal_interrupts() -> None:
    """The points above stand for this: SIGINT in a wait is KeyboardInterrupt at once, and the sandbox lives."""
    with create_sandbox("local") as sandbox:
        process = sandbox.start("echo ready; sleep 60")
        handler = signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGINT))
        try:
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - on a busy machine it comes before the wait has begun
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                process.wait()
        finally:
            signal.signal(signal.SIGALRM, handler)
        process.kill()
        assert sandbox.exec(["echo", "here"]).stdout == "here\n"


def test_a_question_leaves_no_descriptor() -> None:
    """A Ctrl-C at any moment of asking the helper something: the socket for its answer is closed."""
    with create_sandbox("local", lifetime=300) as sandbox:
        sandbox.renew(300)
        gc.collect()  # what an earlier test has dropped
        before = len(os.listdir("/proc/self/fd"))
        for number in range(1, 1000):
            point = CtrlC(number, ("asking.py", "link.py", "socket.py"))
            sys.setprofile(point)
            try:
                sandbox.renew(300)
            except KeyboardInterrupt:
                pass
            finally:
                sys.setprofile(None)
            assert len(os.listdir("/proc/self/fd")) == before, f"after an interruption at point {number}"
            if point.left > 0:
                return
    pytest.fail("every question was interrupted")
