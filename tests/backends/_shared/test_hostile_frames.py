"""Malformed frames on the control socket of a live sandbox: it ends, callers are told, nobody hangs."""

from __future__ import annotations

import array
import contextlib
import os
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from isandbox import SandboxLostError
from isandbox.sync import ISandbox, create_sandbox
from isandbox_backends._shared.protocol import StartFlag
from isandbox_backends._shared.requests import encode_kill, encode_signal, encode_start

pytestmark = pytest.mark.native


NO_FLAGS = StartFlag(0)


def frame(kind: int, payload: bytes, descriptors: int = 0) -> bytes:
    return struct.pack("<IHH", len(payload), kind, descriptors) + payload


def start(argc: int, envc: int, body: bytes, *, id: int = 900, flags: int = 0, descriptors: int = 3) -> bytes:
    return frame(16, struct.pack("<6I", id, flags, 0, 0, argc, envc) + body, descriptors)


def good_start(descriptors: int, flags: StartFlag = NO_FLAGS) -> bytes:
    return encode_start(901, ["true"], {}, "/", flags=flags, timeout=None, descriptors=descriptors)


def send(sandbox: Any, raw: bytes, pipes: int = 0) -> list[int]:
    """Behind the client's back, with the writing ends of new pipes; returns the reading ends."""
    ends = [os.pipe() for _ in range(pipes)]
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writer for _, writer in ends]))] if ends else []
    with contextlib.suppress(OSError):  # it has ended already
        sandbox._core.client._socket.sendmsg([raw], rights)
    for _, writer in ends:
        os.close(writer)
    return [reader for reader, _ in ends]


def close_all(descriptors: list[int]) -> None:
    for fd in descriptors:
        os.close(fd)


def is_alive(sandbox: ISandbox) -> bool:
    """A command runs, or the sandbox says that it is lost: there is no third answer."""
    try:
        assert sandbox.exec("echo here", timeout=30).stdout == "here\n"
    except SandboxLostError:
        return False
    return True


@pytest.fixture
def sandbox() -> Iterator[ISandbox]:
    with create_sandbox("seccomp") as sandbox:
        yield sandbox


BROKEN = [
    pytest.param(struct.pack("<IHH", 0xFFFFFFFF, 16, 0), 0, id="a length of four gigabytes"),
    pytest.param(struct.pack("<IHH", (4 << 20) + 1, 16, 0), 0, id="a length over the limit"),
    pytest.param(frame(99, b""), 0, id="an unknown type"),
    pytest.param(frame(5, bytes(64)), 0, id="a frame that only helpers send"),
    pytest.param(frame(17, b"short"), 0, id="a short KILL"),
    pytest.param(frame(17, bytes(8), 1), 1, id="a KILL with a descriptor"),
    pytest.param(frame(18, bytes(9)), 0, id="a long SIGNAL"),
    pytest.param(frame(16, b""), 3, id="a START of nothing"),
    pytest.param(start(0, 0, b"/\0"), 3, id="no argv"),
    pytest.param(start(5, 0, b"/\0a\0"), 3, id="fewer strings than argc"),
    pytest.param(start(0xFFFFFFFF, 0, b"/\0a\0"), 3, id="argc -1"),
    pytest.param(start(1, 0xFFFFFFFF, b"/\0a\0"), 3, id="envc -1"),
    pytest.param(start(0xFFFFFFFF, 0xFFFFFFFF, b"/\0a\0"), 3, id="counts whose sum wraps"),
    pytest.param(start(1, 0, b"/\0true"), 3, id="no end of the last string"),
    pytest.param(good_start(0), 0, id="no descriptors"),
    pytest.param(good_start(3), 2, id="one descriptor is missing"),
    pytest.param(good_start(3), 0, id="all descriptors are missing"),
    pytest.param(good_start(3, StartFlag.STDIN), 3, id="no descriptor for stdin"),
    pytest.param(good_start(4), 4, id="a descriptor too many"),
    pytest.param(encode_kill(5, "killed"), 1, id="a descriptor that no frame counts"),
    pytest.param(frame(99, b""), 16, id="many descriptors"),
    pytest.param(frame(99, b""), 40, id="more descriptors than fit"),
]


@pytest.mark.parametrize(("raw", "pipes"), BROKEN)
def test_a_broken_frame_ends_the_sandbox(sandbox: ISandbox, raw: bytes, pipes: int) -> None:
    """Also the command that runs then: its caller gets SandboxLostError, and so does every later one."""
    seen: list[BaseException] = []

    def call() -> None:
        try:
            sandbox.exec("echo started; sleep 600", timeout=None, on_stdout=lambda _: running.set())
        except BaseException as error:
            seen.append(error)

    running = threading.Event()
    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    assert running.wait(30)
    close_all(send(sandbox, raw, pipes))
    caller.join(30)
    assert [type(error) for error in seen] == [SandboxLostError]
    for _ in range(2):
        with pytest.raises(SandboxLostError):
            sandbox.exec("true", timeout=30)
    with pytest.raises(SandboxLostError):
        sandbox.files.stat(".")


def test_frames_that_mean_nothing_change_nothing(sandbox: ISandbox) -> None:
    """A KILL or SIGNAL for a command that is gone, or with a number that is no signal, is no error."""
    for raw in (encode_kill(12345, "killed"), encode_signal(12345, 9), encode_signal(1, 65), encode_signal(1, 0xFFFFFFFF)):
        send(sandbox, raw)
    assert is_alive(sandbox)


def test_pieces(sandbox: ISandbox) -> None:
    """Frames may come in any pieces, and many in one."""
    raw = encode_kill(7777, "killed") * 3 + encode_signal(7777, 15)
    for at in range(len(raw)):
        send(sandbox, raw[at : at + 1])
    send(sandbox, raw * 20)
    assert is_alive(sandbox)


def test_the_id_of_a_running_command_is_refused(sandbox: ISandbox) -> None:
    """Two commands by one id could not be told apart: the sandbox ends rather than guess."""
    process = sandbox.start(["sleep", "600"])
    raw = encode_start(process._ends.id, ["true"], {}, "/", flags=StartFlag(0), timeout=None, descriptors=3)  # type: ignore[attr-defined]
    close_all(send(sandbox, raw, 3))
    with pytest.raises(SandboxLostError):
        process.wait()


def nonsense(chance: random.Random) -> tuple[bytes, int]:
    """A frame with something wrong in it, of the length that it says."""
    kind = chance.choice((16, 16, 16, 17, 18, chance.randrange(1 << 16)))
    if kind == 16:
        body = b"\0".join(
            chance.randbytes(chance.randrange(12)) for _ in range(chance.randrange(6))
        ) + b"\0" * chance.randrange(2)
        counts = [chance.choice((0, 1, 2, 3, 1 << 31, chance.randrange(1 << 32))) for _ in range(2)]
        head = struct.pack(
            "<6I", chance.randrange(4), chance.randrange(32), chance.randrange(3000), chance.randrange(9), *counts
        )
        payload = (head + body)[: chance.choice((4096, 4096, chance.randrange(40)))]
    else:
        payload = chance.randbytes(chance.choice((8, 8, chance.randrange(100))))
    pipes = chance.randrange(6)
    return frame(kind, payload, chance.choice((pipes, pipes, chance.randrange(8)))), pipes


@pytest.mark.timeout(300)
def test_random_requests() -> None:
    """200 seeded rounds: whatever is sent, the sandbox works or says that it is lost."""
    chance = random.Random(20_260_102)  # noqa: S311 - the same every time
    lost, left, sandbox = 0, 200, create_sandbox("seccomp")
    try:
        while left:
            readers = [fd for _ in range(chance.randrange(1, 4)) for fd in send(sandbox, *nonsense(chance))]
            left -= 1
            began = time.monotonic()
            if not is_alive(sandbox):
                lost += 1
                sandbox.close()
                sandbox = create_sandbox("seccomp")
            assert time.monotonic() - began < 30
            close_all(readers)
    finally:
        sandbox.close()
    assert lost > 50


def test_a_helper_that_says_nonsense_is_not_believed(sandbox: Any) -> None:
    """A file verb whose answer does not parse is SandboxLostError, not an error of ours, and the sandbox is ended."""
    sandbox.files.write("kept", "x")
    pidfd = os.pidfd_open(sandbox._core.client.pid)
    from isandbox_backends._shared import fileverbs

    # LIST's answer given to a verb that has none: what a helper gone wrong would send.
    call = fileverbs.list_dir(".")
    wrong = fileverbs.FileCall(call.operation, call.spec, call.path, fileverbs.remove("x", False).parse)
    with pytest.raises(SandboxLostError, match="broke the protocol"):
        sandbox._file(wrong, None)
    try:
        assert select.select([pidfd], [], [], 10)[0]
    finally:
        os.close(pidfd)
    with pytest.raises(SandboxLostError):
        sandbox.files.read_text("kept")
