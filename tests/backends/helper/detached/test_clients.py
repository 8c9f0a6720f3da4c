"""Many control connections to one helper: each has its own commands, and none can harm another."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
from typing import Any

import pytest

from isandbox_backends._shared.answers import decode_status
from isandbox_backends._shared.protocol import Exit, Question, Started, StartFlag
from isandbox_backends._shared.requests import encode_kill, encode_release, encode_shutdown, encode_signal

pytestmark = pytest.mark.native

OTHER = 54322


def exit_of(command: Any) -> Exit:
    os.close(command.out)
    found = command.replies()[-1]
    assert isinstance(found, Exit)
    return found


def works(client: Any, id: int = 900) -> bool:
    """A command of this client runs and its output arrives."""
    command = client.start("echo", "here", id=id)
    said = command.output()
    replies = command.replies()
    return said == b"here\n" and isinstance(replies[-1], Exit) and replies[-1].wait_status == 0


def test_the_creator_and_another_client(detach: Any) -> None:
    """Both run commands, at once and under the same id; numbers tell them apart."""
    sandbox = detach()
    other = sandbox.connect()
    assert (sandbox.creator.hello().client, other.hello().client) == (0, 1)
    first, second = sandbox.creator.start("echo", "one", id=7), other.start("echo", "two", id=7)
    assert (first.output(), second.output()) == (b"one\n", b"two\n")
    assert [reply.id for reply in (*first.replies(), *second.replies())] == [7, 7]


def test_a_number_is_never_given_twice(detach: Any) -> None:
    """A client that comes after another has gone has a new number."""
    sandbox = detach()
    seen = []
    for _ in range(3):
        client = sandbox.connect()
        seen.append(client.hello().client)
        client.close()
    assert seen == [1, 2, 3]


def test_another_client_gets_the_note(detach: Any) -> None:
    """The note travels with the hello, sealed, and whole for each one who reads from its start; the creator gets none."""
    sandbox = detach()
    for client in (sandbox.connect(), sandbox.connect()):
        (note,) = client.notes
        assert os.pread(note, 100, 0) == b'{"note": "of a test"}'
        with pytest.raises(PermissionError):
            os.pwrite(note, b"forged", 0)
    assert sandbox.creator.notes == []


def test_the_same_layers_are_told_to_everybody(detach: Any) -> None:
    """A later client hears what the creator heard, but for its own number."""
    sandbox = detach()
    first, second = sandbox.creator.hello(), sandbox.connect().hello()
    assert (first.layers, first.filter, first.landlock_abi) == (second.layers, second.filter, second.landlock_abi)


def test_ids_are_a_client_s_own(detach: Any) -> None:
    """KILL and SIGNAL reach the commands of the client that sends them and no other's."""
    sandbox = detach()
    other = sandbox.connect()
    mine, theirs = sandbox.creator.start("sleep", "600", id=5), other.start("sleep", "600", id=5)
    sandbox.creator.send(encode_signal(5, 15) + encode_kill(5, "killed"))
    found = exit_of(mine)
    assert found.wait_status in {15, 9}
    assert works(other)
    other.send(encode_kill(5, "oom"))
    assert exit_of(theirs).fault == "oom"


def test_the_end_of_a_client_is_its_commands_end(detach: Any) -> None:
    """Cancelled, with all that they started; the other client's go on."""
    sandbox = detach()
    other = sandbox.connect()
    mine = other.start("sh", "-c", "sleep 600 & echo up; sleep 600", id=1, flags=StartFlag.WANT_STARTED)
    theirs = sandbox.creator.start("cat", id=1)
    assert os.read(mine.out, 10) == b"up\n"
    other.close()
    replies = mine.replies()
    assert isinstance(replies[0], Started)
    assert (replies[-1].fault, replies[-1].lingering) == ("cancelled", False)  # type: ignore[union-attr]
    os.close(mine.out)
    assert exit_of(theirs).wait_status == 0
    assert works(sandbox.creator)


RUBBISH = [
    pytest.param(struct.pack("<IHH", 0xFFFFFFFF, 16, 0), 0, id="a length of four gigabytes"),
    pytest.param(struct.pack("<IHH", 0, 99, 0), 0, id="an unknown type"),
    pytest.param(struct.pack("<IHH", 0, 1, 0), 0, id="a hello"),
    pytest.param(struct.pack("<IHH", 0, 16, 3), 3, id="a START of nothing"),
    pytest.param(struct.pack("<IHH", 4, 17, 0) + bytes(4), 0, id="a short KILL"),
    pytest.param(encode_kill(99, "killed"), 5, id="descriptors that no frame counts"),
    pytest.param(struct.pack("<IHHIIQ", 16, 21, 1, 9, 0, 0), 1, id="an unknown question"),
    pytest.param(struct.pack("<IHHIIQ", 16, 21, 0, 1, 0, 0), 0, id="a question without a place for its answer"),
    pytest.param(struct.pack("<IHHI", 4, 22, 0, 1), 0, id="a long SHUTDOWN"),
    pytest.param(encode_release(), 0, id="the creator's word from somebody else"),
    pytest.param(struct.pack("<IHH", 100, 16, 3) + b"half", 3, id="half a frame, and the end"),
]


@pytest.mark.parametrize(("raw", "pipes"), RUBBISH)
def test_who_breaks_the_protocol_loses_its_connection(detach: Any, raw: bytes, pipes: int) -> None:
    """And its commands; the sandbox, and what others run in it, goes on."""
    sandbox = detach()
    bad = sandbox.connect()
    lost = bad.start("sleep", "600", id=1)
    stays = sandbox.creator.start("cat", id=1, flags=StartFlag.WANT_STARTED)
    ends = [os.pipe() for _ in range(pipes)]
    bad.send(raw, [writer for _, writer in ends])
    for _, writer in ends:
        os.close(writer)
    bad.socket.shutdown(socket.SHUT_WR)
    bad.hear_out()
    replies = lost.replies()
    os.close(lost.out)
    assert replies, f"no report of an end; the sandbox {'lives' if sandbox.alive() else 'was lost'}"
    assert replies[-1].fault == "cancelled"  # type: ignore[union-attr]
    for reader, _ in ends:
        assert os.read(reader, 1) == b""  # whatever came with it is closed
        os.close(reader)
    assert exit_of(stays).wait_status == 0
    assert works(sandbox.creator)
    assert works(sandbox.connect())


def test_a_client_that_never_reads_harms_nobody(detach: Any) -> None:
    """Thousands of questions whose answers nobody takes, on sockets that are full: others are answered."""
    sandbox = detach()
    deaf = sandbox.connect()
    ours, full = socket.socketpair()
    with ours, full:
        full.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                full.send(bytes(65536))
        full.setblocking(True)  # the flag travels with the socket
        for _ in range(1000):
            deaf.send(struct.pack("<IHHIIQ", 16, 21, 1, 1, 0, 0), [full.fileno()])
        assert works(sandbox.creator)
    assert decode_status(sandbox.creator.ask(Question.STATUS)).clients == 2


def test_a_client_that_fills_its_status_pipe_harms_nobody(detach: Any) -> None:
    """Its command's end is told to nobody, and is its end all the same: no process waits for that pipe."""
    sandbox = detach()
    deaf = sandbox.connect()
    started = [deaf.start("sleep", "600", id=1, full=True, flags=StartFlag.WANT_STARTED), deaf.start("true", id=2, full=True)]
    deaf.send(encode_kill(1, "killed"))
    while decode_status(deaf.ask(Question.STATUS)).commands:  # on this connection: asked after both had been started
        pass
    assert works(sandbox.creator)
    for command in started:
        os.close(command.status)
        os.close(command.out)


def test_one_client_more_than_there_may_be(detach: Any) -> None:
    """The 33rd is closed without a word; when one has gone there is a place again."""
    sandbox = detach()
    others = [sandbox.connect() for _ in range(31)]
    assert decode_status(others[-1].ask(Question.STATUS)).clients == 32
    late = sandbox.knock()
    assert late.hear_out() == []
    others[0].close()
    # The place is free when the helper has seen the end.
    while decode_status(others[1].ask(Question.STATUS)).clients == 32:
        pass
    assert works(sandbox.connect())


def test_status(detach: Any) -> None:
    """How many clients there are and commands run, and how long it may still last."""
    sandbox = detach()
    other = sandbox.connect()
    command = other.start("sleep", "600")
    status = decode_status(other.ask(Question.STATUS))
    assert (status.clients, status.commands, status.kept, status.idle_timeout) == (2, 1, 0, None)
    assert status.lifetime_left is not None
    assert 500 < status.lifetime_left <= 600
    assert 0 <= status.age < 100
    other.send(encode_kill(1, "killed"))
    assert exit_of(command).fault == "killed"


def test_shutdown_by_any_client(detach: Any) -> None:
    """Everybody hears goodbye with the reason, then everything ends."""
    sandbox = detach()
    other = sandbox.connect()
    command = sandbox.creator.start("sleep", "600")
    other.send(encode_shutdown())
    assert (other.farewell(), sandbox.creator.farewell()) == (1, 1)
    assert command.replies() == []  # lost with the sandbox: no result
    os.close(command.out)
    assert sandbox.gone()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_not_let_in(detach: Any) -> None:
    """Whoever gets as far as the socket with another uid is closed without a word; the owner is let in at the same place."""
    sandbox = detach()
    os.chmod(sandbox.place.parent, 0o755)  # noqa: S103 - the mistake that the check is there for
    os.chmod(sandbox.place, 0o755)  # noqa: S103
    os.chmod(sandbox.place / "control", 0o777)  # noqa: S103
    program = (
        "import os, socket, sys\n"
        "uid = int(sys.argv[2])\n"
        "if uid: os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)\n"
        "s = socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(sys.argv[1])\n"
        "try: print(len(s.recv(4096)))\n"
        "except ConnectionError: print(0)\n"
    )
    heard = {}
    for uid in (0, OTHER):
        command = [sys.executable, "-I", "-c", program, str(sandbox.place / "control"), str(uid)]
        heard[uid] = int(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert heard[0] > 0
    assert heard[OTHER] == 0
    assert works(sandbox.connect())
