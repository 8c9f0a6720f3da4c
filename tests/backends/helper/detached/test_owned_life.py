"""An owned sandbox has a lifetime and an idle time-out too, and the same questions are answered, whichever helper it has."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import pytest

from isandbox.testing.contract.base import in_time, within
from isandbox_backends._shared.answers import decode_commands, decode_status
from isandbox_backends._shared.plan import Life
from isandbox_backends._shared.protocol import Question, StartFailed
from isandbox_backends._shared.requests import encode_ask, encode_release, encode_shutdown

pytestmark = pytest.mark.native

SHUTDOWN, LIFETIME, IDLE = 1, 2, 3


def test_a_lifetime(own: Any) -> None:
    """It ends in time, with the reason, although a command runs."""

    def begin(lifetime: float) -> Any:
        with within(lifetime):
            client = own(Life(lifetime_ms=int(lifetime * 1000)))
            return client, client.start("sleep", "600")

    client, command = in_time(begin)
    assert client.farewell() == LIFETIME
    assert command.replies() == []
    os.close(command.out)


def test_an_idle_timeout(own: Any) -> None:
    """A command that runs is use, and its end the last one."""

    def begin(idle: float) -> Any:
        with within(idle):
            client = own(Life(idle_ms=int(idle * 1000)))
            return client, client.start("sleep", str(idle * 1.5))

    client, command = in_time(begin)
    assert command.replies()[-1].wait_status == 0
    os.close(command.out)
    assert client.farewell() == IDLE


def test_questions(own: Any) -> None:
    """How it is, that nothing is kept, and a life that is prolonged."""

    def begin(lifetime: float) -> Any:
        with within(lifetime):
            client = own(Life(lifetime_ms=int(lifetime * 1000)))
            return client, client.ask(Question.RENEW, 500_000), lifetime

    client, answer, lifetime = in_time(begin)
    status = decode_status(answer)
    assert (status.clients, status.commands, status.kept, status.idle_timeout) == (1, 0, 0, None)
    assert status.lifetime_left is not None
    assert 400 < status.lifetime_left <= 500
    assert decode_commands(client.ask(Question.COMMANDS)) == []
    time.sleep(lifetime + 0.2)
    assert decode_status(client.ask(Question.STATUS)).age > lifetime
    client.ask(Question.RENEW, 1)
    assert client.farewell() == LIFETIME


def test_no_life_at_all(own: Any) -> None:
    """Without either it has no end of its own, and says so."""
    status = decode_status(own(Life()).ask(Question.STATUS))
    assert (status.lifetime_left, status.idle_timeout) == (None, None)


def test_an_answer_that_nobody_takes(own: Any) -> None:
    """A caller that was interrupted has closed its end: the sandbox is none the worse."""
    client = own(Life())
    for _ in range(20):
        ours, theirs = socket.socketpair()
        ours.close()
        with theirs:
            client.send(encode_ask(Question.STATUS), [theirs.fileno()])
    command = client.start("echo", "on")
    assert command.output() == b"on\n"
    command.replies()


def test_shutdown(own: Any) -> None:
    """Goodbye, and the end."""
    client = own(Life())
    client.send(encode_shutdown())
    assert client.farewell() == SHUTDOWN


def test_nothing_to_release(own: Any) -> None:
    """An owned sandbox cannot be let go of: its creator's word for that breaks the protocol."""
    client = own(Life())
    client.send(encode_release())
    assert isinstance(client.hear_out()[-1], StartFailed)
