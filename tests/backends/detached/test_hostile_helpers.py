"""What a connecting host is told by helpers that are not, or no more, what they should be."""

from __future__ import annotations

import array
import asyncio
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from isandbox import SandboxBusyError, SandboxError, SandboxLostError, StateError, connect, sync
from isandbox_backends._shared import client, exchange, protocol, start
from isandbox_backends._shared.detached import connect as connecting
from isandbox_backends._shared.detached import connection, note
from isandbox_backends._shared.detached.connection import Connection, OtherVersionError, TurnedAwayError
from isandbox_backends._shared.detached.starting import DetachedStart
from isandbox_backends._shared.helper import HelperProgram, helper_path
from isandbox_backends._shared.link import HelperStartError

from .conftest import LIFETIME, eventually, first_process

HELPER = Path(__file__).parents[3] / "backends" / "helper"
_FLAGS = [
    "-std=gnu11",
    "-O1",
    "-static",
    "-nostdlib",
    "-nostartfiles",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-stack-protector",
]
_FLAGS += ["-fno-tree-loop-distribute-patterns", "-fno-pie", "-no-pie"]


def frame(kind: int, payload: bytes, descriptors: int = 0) -> bytes:
    return struct.pack("<IHH", len(payload), kind, descriptors) + payload


def hello(version: int = protocol.PROTOCOL_VERSION, number: int = 1) -> bytes:
    return frame(1, struct.pack("<IIIIIIQ", version, 1, 6, 0, number, 0, 0), 1)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Connection]]:
    theirs, ours = socket.socketpair()
    link = Connection(ours, None, -1)
    before = set(os.listdir("/proc/self/fd"))
    yield theirs, link
    link.let_go()
    theirs.close()
    assert set(os.listdir("/proc/self/fd")) <= before


def send(theirs: socket.socket, data: bytes, descriptors: int = 0) -> None:
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(descriptors)]
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
    theirs.sendmsg([data], rights)
    for fd in files:
        os.close(fd)


def wait(link: Connection) -> None:
    link.wait_ready(time.monotonic() + 20)


@pytest.mark.parametrize("cut", [1, 7, 8, 20, 30])
def test_a_greeting_in_pieces(ends: tuple[socket.socket, Connection], cut: int) -> None:
    """However it arrives, a hello with a note is taken, and what follows it is kept for later."""
    theirs, link = ends
    send(theirs, hello()[:cut], 1)
    assert not link.receive()
    send(theirs, hello()[cut:] + frame(6, struct.pack("<I", 2)))
    wait(link)
    os.close(link.take_note())
    theirs.close()
    assert link.farewell() == "its lifetime has ended"


@pytest.mark.parametrize(
    ("data", "descriptors", "error"),
    [
        (b"", 0, TurnedAwayError),
        (hello(), 0, HelperStartError),
        (hello(number=0)[:6] + b"\0\0" + hello(number=0)[8:], 0, HelperStartError),
        (hello(protocol.PROTOCOL_VERSION - 1), 1, OtherVersionError),
        (hello(protocol.PROTOCOL_VERSION + 1) + b"more of the future", 0, OtherVersionError),
        (frame(2, b"\1\0\0\0stage\0object\0"), 0, HelperStartError),
        (hello() + hello(), 1, HelperStartError),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", 0, HelperStartError),
        (bytes(range(7, 200)), 3, HelperStartError),
    ],
)
def test_greetings_that_are_none(
    ends: tuple[socket.socket, Connection], data: bytes, descriptors: int, error: type[Exception]
) -> None:
    """Silence, rubbish, a hello without its note or of another version: each is told apart, and no descriptor is kept."""
    theirs, link = ends
    send(theirs, data, descriptors)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(error):
        wait(link)


def test_a_helper_that_says_nothing(monkeypatch: pytest.MonkeyPatch, ends: tuple[socket.socket, Connection]) -> None:
    """Nobody waits for it for ever."""
    _, link = ends
    with pytest.raises(HelperStartError, match="no answer"):
        link.wait_ready(time.monotonic() + 0.2)


@pytest.mark.parametrize(
    "said",
    [hello(), hello(number=7), frame(3, struct.pack("<I", 5)), bytes(64)],
    ids=["hello", "another hello", "launched", "rubbish"],
)
def test_a_helper_that_talks_on(ends: tuple[socket.socket, Connection], said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the hello there is one word for it to say; whoever asks for that one is not kept by others that never end."""
    theirs, link = ends
    send(theirs, hello(), 1)
    wait(link)
    os.close(link.take_note())
    reads = 0

    def read(_fd: int, _size: int) -> bytes:
        nonlocal reads
        reads += 1
        assert reads < 1000, "it is listened to for ever"
        return said

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", read)
        assert link.farewell() is None
    assert reads == 1


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The id of a sandbox that greets whoever connects, and then says nothing more."""
    monkeypatch.setattr(exchange, "START_ANSWER", 0.5)
    sandbox = sync.create_sandbox("seccomp", detached=True, lifetime=LIFETIME)
    sandbox.detach()
    yield sandbox.info.id
    tell(sandbox.info.id, signal.SIGCONT)
    assert sync.kill_sandbox(sandbox.info.id)


def tell(id: str, number: int) -> None:
    os.kill(first_process(id).pid, number)


@pytest.mark.native
def test_a_start_that_is_not_answered(stopped: str) -> None:
    """Whoever waits for a kept command's start finds the sandbox lost, and does not wait for ever."""
    with sync.connect(stopped) as sandbox:
        tell(stopped, signal.SIGSTOP)
        process = sandbox.start(["true"], background=True)
        with pytest.raises(SandboxLostError, match="start of a command"):
            process.wait()


@pytest.mark.native
async def test_a_start_that_is_not_answered_to_a_loop(stopped: str) -> None:
    """The same with the other driver."""
    async with connect(stopped) as sandbox:
        tell(stopped, signal.SIGSTOP)
        process = await asyncio.wait_for(sandbox.start(["true"], background=True), 30)
        with pytest.raises(SandboxLostError, match="start of a command"):
            await asyncio.wait_for(process.wait(), 30)


@pytest.mark.native
def test_labels_are_not_the_helpers_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the note says, a connecting program sees the labels that the sandbox was made with."""
    honest = note.read
    with sync.create_sandbox("seccomp", detached=True, lifetime=LIFETIME, labels={"trusted": "no"}) as sandbox:

        def forged(fd: int) -> note.Note:
            found = honest(fd)
            return replace(found, info=replace(found.info, labels={"trusted": "yes"}))

        monkeypatch.setattr(note, "read", forged)
        with sync.connect(sandbox.info.id) as again:
            assert again.info.labels == {"trusted": "no"}


@pytest.mark.native
def test_the_note_of_another_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper that gives another sandbox's note, another control group's, or a broken one, makes no handle."""
    with sync.create_sandbox("seccomp", detached=True, lifetime=LIFETIME) as sandbox:
        honest = note.read
        changes = {
            "another one": lambda found: replace(found, info=replace(found.info, id="seccomp-" + "1" * 32)),
            "control group": lambda found: replace(
                found, group=note.GroupNote("v2", {"memory": "/sys/fs/cgroup"}, "isandbox-x", None, None, None)
            ),
        }
        for what, change in changes.items():
            monkeypatch.setattr(note, "read", lambda fd, change=change: change(honest(fd)))
            with pytest.raises(note.NoteError, match=what):
                sync.connect(sandbox.info.id)
        monkeypatch.setattr(note, "read", honest)
        with sync.connect(sandbox.info.id) as again:  # the control
            assert again.exec(["true"]).ok


@pytest.mark.native
def test_the_33rd_client() -> None:
    """With 32 clients the next one is told to try again, and it can when one has gone."""
    with sync.create_sandbox("seccomp", detached=True, lifetime=LIFETIME) as sandbox:
        clients = [sync.connect(sandbox.info.id) for _ in range(31)]
        with pytest.raises(SandboxBusyError, match="no more clients") as caught:
            sync.connect(sandbox.info.id)
        assert caught.value.retryable
        clients.pop().detach()

        def room() -> bool:
            try:
                clients.append(sync.connect(sandbox.info.id))
            except SandboxBusyError:
                return False
            return True

        assert eventually(room)
        for held in clients:
            held.detach()
        assert sandbox.exec(["true"]).ok


@pytest.mark.native
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as somebody else")
def test_the_socket_of_another_user(state: Path) -> None:
    """A socket on which another user listens is not spoken to."""
    with sync.create_sandbox("seccomp", detached=True, lifetime=LIFETIME) as sandbox:
        control = state / "sandboxes" / sandbox.info.id / "control"
        real = control.rename(control.with_name("real"))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{_directory(control)}/control")
            child = os.fork()
            if child == 0:
                os.setresuid(54321, 54321, 54321)
                listener.listen()
                os._exit(0)
            os.waitpid(child, 0)
            with pytest.raises(StateError, match="uid 54321"):
                sync.connect(sandbox.info.id)
        real.rename(control)
        with sync.connect(sandbox.info.id) as again:  # the control
            assert again.exec(["true"]).ok


_OPEN: list[int] = []


def _directory(control: Path) -> int:
    _OPEN.append(os.open(control.parent, os.O_RDONLY | os.O_DIRECTORY))
    return _OPEN[-1]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _OPEN:
        os.close(_OPEN.pop())


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> HelperProgram:
    """The helper of the version before."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed: apt-get install gcc libc6-dev")
    place = tmp_path_factory.mktemp("older")
    place.chmod(0o755)
    for source in (*HELPER.glob("*.c"), *HELPER.glob("*.h")):
        text = source.read_text()
        if source.name == "protocol.h":
            line = f"#define PROTOCOL_VERSION {protocol.PROTOCOL_VERSION}"
            assert line in text
            text = text.replace(line, f"#define PROTOCOL_VERSION {protocol.PROTOCOL_VERSION - 1}")
        (place / source.name).write_text(text)
    command = [compiler, *_FLAGS, "-Wl,--build-id=none", "-o", str(place / "helper"), *map(str, sorted(place.glob("*.c")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return HelperProgram(str(place / "helper"))


@pytest.mark.native
@pytest.mark.parametrize("stuck", [False, True])
def test_a_helper_of_the_version_before(older: HelperProgram, stuck: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by name, with the way out: it is listed, and can be killed, also when it does not answer any more."""
    with monkeypatch.context() as patch:
        patch.setattr(start, "_native", lambda: older)
        before = protocol.PROTOCOL_VERSION - 1
        for module in (protocol, client):
            patch.setattr(module, "PROTOCOL_VERSION", before)
        sandbox = sync.create_sandbox("seccomp", detached=True, lifetime=LIFETIME)
        assert sandbox.exec(["true"]).ok
        sandbox.detach()
    with pytest.raises(SandboxError, match=rf"protocol {protocol.PROTOCOL_VERSION - 1}.*isandbox kill {sandbox.info.id}"):
        sync.connect(sandbox.info.id)
    assert [summary.state for summary in sync.list_sandboxes() if summary.id == sandbox.info.id] == ["running"]
    if stuck:
        monkeypatch.setattr(connecting, "_PATIENCE", 0.5)
    assert sync.kill_sandbox(sandbox.info.id) is True
    assert helper_path() is not None
    assert connection.PROTOCOL_VERSION == protocol.PROTOCOL_VERSION


SPEAKER = """#!{python} -IS
import os, socket
os.write(4, bytes.fromhex("{raw}"))
socket.socket(fileno=4).recv(1)
"""


@pytest.mark.native
def test_the_pid_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    """A launcher that calls another process the sandbox's first one: that process is neither kept an eye on nor killed."""
    with subprocess.Popen(["sleep", "100"]) as stranger:
        raw = frame(3, struct.pack("<II", stranger.pid, os.getpid()))
        program = tmp_path / "helper"
        program.write_text(SPEAKER.format(python=sys.executable, raw=raw.hex()))
        program.chmod(0o700)
        starting = DetachedStart(HelperProgram(str(program)), [], {}, "seccomp-" + "4" * 32)
        try:
            with pytest.raises(HelperStartError, match="no helper"):
                starting.wait_ready(time.monotonic() + 30)
            starting.give_up()
            assert stranger.poll() is None
        finally:
            stranger.kill()
            starting.give_up()
