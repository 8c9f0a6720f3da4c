"""Detached sandboxes without the product's client: the helper as it is, and connections that say what a test wants."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import select
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from isandbox.policy import Policy
from isandbox_backends._shared.helper import HelperProgram, helper_path
from isandbox_backends._shared.plan import Life, Mode, ModeRecord, Record, encode_plan
from isandbox_backends._shared.portable import anonymous_file
from isandbox_backends._shared.protocol import Decoder, Goodbye, Hello, Launched, Reply, StartFailed, StartFlag
from isandbox_backends._shared.requests import encode_ask, encode_release, encode_start
from isandbox_backends._shared.spawn import LISTEN_FD, LOCK_FD, NOTE_FD, spawn
from isandbox_backends.local import backend as local
from isandbox_backends.local.python_helper import python_helper
from isandbox_backends.seccomp.backend import compile_plan
from isandbox_backends.seccomp.identity import identify, is_ready, look, make_ready
from isandbox_backends.seccomp.options import SeccompOptions

PATIENCE = 30.0
"""Seconds after which something is taken for a hang."""
NOTE = b'{"note": "of a test"}'
NO_FLAGS = StartFlag(0)


def soon(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def running(pid: int) -> bool:
    """Not also a zombie: an orphan's belongs to the machine's first process, which may take its time."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def readable(file: Any) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(PATIENCE * 1000))


def fill(pipe: int) -> None:
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, bytes(4096))
    os.set_blocking(pipe, True)


def read_all(fd: int) -> bytes:
    """To the end, and closed."""
    found = b""
    while readable(fd) and (data := os.read(fd, 65536)):
        found += data
    os.close(fd)
    return found


@dataclass
class Command:
    """One command of a client: the ends of its pipes that are the host's."""

    id: int
    status: int
    out: int

    def replies(self) -> list[Reply]:
        """All that is reported of it, to the end."""
        return list(Decoder().feed(read_all(self.status)))

    def output(self) -> bytes:
        return read_all(self.out)


@dataclass
class Client:
    """One connection. ``replies``: what was said on it so far; ``notes``: descriptors that came with that."""

    socket: socket.socket
    replies: list[Reply] = field(default_factory=list)
    notes: list[int] = field(default_factory=list)
    pipes: list[int] = field(default_factory=list)
    ended: bool = False
    _decoder: Decoder = field(default_factory=Decoder)

    def hear(self) -> bool:
        """Wait for something; false at the end of the connection."""
        assert readable(self.socket), "nothing was said"
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, 4096, 4, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            data, fds = b"", []
        self.notes += fds
        self.replies += self._decoder.feed(data)
        self.ended = not data
        return bool(data)

    def wait(self, kind: type) -> Any:
        while True:
            found = [reply for reply in self.replies if isinstance(reply, kind)]
            if found:
                return found[0]
            assert self.hear(), f"the end, and no {kind.__name__}: {self.replies}"

    def hello(self) -> Hello:
        found = self.wait(Hello)
        assert isinstance(found, Hello)
        return found

    def hear_out(self) -> list[Reply]:
        while self.hear():
            pass
        return self.replies

    def farewell(self) -> int:
        return int(next((reply.reason for reply in self.hear_out() if isinstance(reply, Goodbye)), 0))

    def send(self, raw: bytes, fds: list[int] | None = None) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        assert self.socket.sendmsg([raw], rights) == len(raw)

    def start(self, *argv: str, id: int = 1, flags: StartFlag = NO_FLAGS, full: bool = False) -> Command:
        """``full``: nothing more can be written to the status pipe."""
        status, out, err = os.pipe(), os.pipe(), os.open("/dev/null", os.O_WRONLY)
        if full:
            fill(status[1])
        theirs = [status[1], out[1], err]
        env = {"PATH": "/usr/bin:/bin"}
        self.send(encode_start(id, argv, env, "/", flags=flags, timeout=None, descriptors=3), theirs)
        for fd in theirs:
            os.close(fd)
        return Command(id, status[0], out[0])

    def ask(self, what: Any, value: int = 0) -> bytes:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self.send(encode_ask(what, value=value), [theirs.fileno()])
            found = b""
            while readable(ours) and (data := ours.recv(65536)):
                found += data
            assert found, "no answer"
            return found

    def release(self) -> None:
        self.send(encode_release())

    def close(self) -> None:
        self.socket.close()
        for fd in self.notes:
            os.close(fd)
        self.notes = []


@dataclass
class Detached:
    """A helper, its processes and the directory with its socket and its lock."""

    backend: str
    place: Path
    creator: Client
    launcher: int
    clients: list[Client] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return int(self.creator.wait(Launched).pid)

    @property
    def door(self) -> int:
        """Whoever lets clients in."""
        launched = self.creator.wait(Launched)
        return int(launched.door or launched.pid)

    def connect(self) -> Client:
        client = self.knock()
        client.hello()
        return client

    def knock(self) -> Client:
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(str(self.place / "control"))
        self.clients.append(Client(peer))
        return self.clients[-1]

    def alive(self) -> bool:
        """What the lock says."""
        with open(self.place / "lock", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def gone(self) -> bool:
        """Soon nobody of it is there any more, and its lock is free."""
        pids = {self.pid, self.door}
        return soon(lambda: not self.alive() and not any(map(running, pids)))


def records(backend: str, change: Callable[[ModeRecord], ModeRecord]) -> tuple[list[Record], dict[int, int], Any]:
    """A plan, the descriptors that go with it and what closes them."""
    if backend == "local":
        plan, inherited, identity = local.compile_plan(Policy()), {}, None
    else:
        found = look(SeccompOptions(), None)
        if not is_ready(found):
            found, _ = make_ready(found, PATIENCE)
        identity = identify(Policy(), SeccompOptions(), found)
        plan, inherited = compile_plan(Policy(), None, [], identity.ids), dict(identity.inherited)
    return [change(item) if isinstance(item, ModeRecord) else item for item in plan], inherited, identity


def make(backend: str, place: Path, life: Life | None, *, given: tuple[int, ...] = (LISTEN_FD, LOCK_FD, NOTE_FD)) -> Detached:
    path = helper_path()
    assert path is not None
    plan, inherited, identity = records(backend, lambda mode: replace(mode, flags=mode.flags | Mode.DETACHED))
    ours, theirs = socket.socketpair()
    lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    note = anonymous_file("isandbox-note", NOTE, sealed=True)
    with theirs, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place / "control"))
        listening.listen(64)
        door = {LISTEN_FD: listening.fileno(), LOCK_FD: lock, NOTE_FD: note}
        fds = {**inherited, 4: theirs.fileno(), **{number: fd for number, fd in door.items() if number in given}}
        program = HelperProgram(path, ("isandbox-helper", "seccomp-test", "detached"))
        launcher = spawn(program, encode_plan([*plan, *([life] if life else [])]), fds)
    os.close(lock)
    os.close(note)
    if identity is not None:
        identity.close()
    return Detached(backend, place, Client(ours), launcher)


Make = Callable[..., Detached]


@pytest.fixture
def start_detached() -> Iterator[Callable[..., StartFailed]]:
    """``start_detached(backend, life, given)``: why a helper refused to start, with none of it left."""
    with tempfile.TemporaryDirectory(prefix="isandbox-tests-") as top:

        def factory(backend: str, life: Life | None, given: set[int]) -> StartFailed:
            sandbox = make(backend, Path(top), life, given=tuple(given))
            failed = sandbox.creator.wait(StartFailed)
            assert isinstance(failed, StartFailed)
            os.waitpid(sandbox.launcher, 0)
            sandbox.creator.close()
            assert soon(lambda: not sandbox.alive())
            return failed

        yield factory


@pytest.fixture(params=["seccomp", "local", "python"])
def own(request: pytest.FixtureRequest) -> Iterator[Callable[[Life], Client]]:
    """``own(life)``: the connection to an owned sandbox that is ready, of each helper. All have ended afterwards."""
    made: list[tuple[Client, int]] = []

    def factory(life: Life) -> Client:
        path = helper_path()
        assert path is not None
        program = python_helper() if request.param == "python" else HelperProgram(path)
        plan, inherited, identity = records("local" if request.param == "python" else request.param, lambda mode: mode)
        ours, theirs = socket.socketpair()
        with theirs:
            launcher = spawn(program, encode_plan([*plan, life]), {**inherited, 4: theirs.fileno()})
        if identity is not None:
            identity.close()
        client = Client(ours)
        made.append((client, launcher))
        client.hello()
        return client

    yield factory
    for client, launcher in made:
        client.close()
        for pid in {launcher, client.wait(Launched).pid}:
            os.waitpid(pid, 0)


@pytest.fixture(params=["seccomp", "local"])
def detach(request: pytest.FixtureRequest) -> Iterator[Make]:
    """``detach()``: a detached sandbox that is ready, released unless told otherwise. All have ended afterwards."""
    made: list[Detached] = []
    with tempfile.TemporaryDirectory(prefix="isandbox-tests-") as top:

        def factory(life: Life | None = None, *, release: bool = True) -> Detached:
            place = Path(top, str(len(made)))
            place.mkdir()
            sandbox = make(request.param, place, life or Life(lifetime_ms=600_000))
            made.append(sandbox)
            sandbox.creator.hello()
            assert os.waitpid(sandbox.launcher, 0)[1] == 0
            if release:
                sandbox.creator.release()
            return sandbox

        yield factory
        for sandbox in made:
            for client in (sandbox.creator, *sandbox.clients):
                client.close()
            for pid in {sandbox.pid, sandbox.door} if sandbox.alive() else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            assert sandbox.gone()
