"""A person at a terminal, scripted: a program with a pseudo-terminal as its controlling one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from pexpect import TIMEOUT
from pexpect.fdpexpect import fdspawn

GENEROUS = 60  # seconds
# Makes the terminal that it has as stdin its controlling one, then becomes the program.
_BECOME = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


class Keyboard:
    """``running`` at a terminal of 30 lines and 100 columns. `pexpect` reads the screen; its regular expressions are of bytes."""

    def __init__(self, arguments: list[str], **options: Any) -> None:
        self.master, self.theirs = pty.openpty()  # theirs is kept open: the terminal's settings outlive the program
        self.resize(30, 100)
        self.before = termios.tcgetattr(self.theirs)
        given = {"stdin": self.theirs, "stdout": self.theirs, "stderr": self.theirs, **options}
        self.running = subprocess.Popen([sys.executable, "-c", _BECOME, *arguments], start_new_session=True, **given)
        self.screen = fdspawn(self.master, timeout=GENEROUS)

    def expect(self, pattern: bytes) -> bytes:
        """What stood before it."""
        end = time.monotonic() + GENEROUS
        while self.screen.expect([pattern, TIMEOUT], timeout=5):  # by the wall clock, which somebody may set
            assert time.monotonic() < end, f"not there: {pattern!r}, but {self.screen.buffer!r}"
        return bytes(self.screen.before)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def exit_code(self) -> int:
        """Reads on: a terminal that nobody reads would stop the program."""
        end = time.monotonic() + GENEROUS
        while self.running.poll() is None:
            assert time.monotonic() < end, f"still running: {self.screen.buffer!r}"
            with contextlib.suppress(Exception):
                self.screen.expect([b"\n"], timeout=0.05)
        return self.running.returncode

    def is_as_before(self) -> bool:
        """The terminal's settings, once the program has ended."""
        return termios.tcgetattr(self.theirs) == self.before

    def hang_up(self) -> None:
        """The window is closed."""
        os.close(self.theirs)
        os.close(self.master)
        self.master = self.theirs = -1

    def close(self) -> None:
        self.running.kill()
        self.running.wait(timeout=GENEROUS)
        for fd in {self.master, self.theirs} - {-1}:
            os.close(fd)


@pytest.fixture
def keyboard(project: Path) -> Iterator[Callable[..., Keyboard]]:
    """Starts programs at terminals of their own, in the project; an interactive shell has ``$ `` as its prompt."""
    made: list[Keyboard] = []

    def start(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> Keyboard:
        around = {**os.environ, "TERM": "xterm", **(env or {})}
        made.append(Keyboard(list(arguments), cwd=project, env=around, **options))
        return made[-1]

    yield start
    for one in made:
        one.close()


# Imports once what each call needs, then a child a call: most of a call's time would else be the interpreter's start.
_SERVER = """
import importlib, json, os, pkgutil, socket, sys
import isandbox.cli.commands, isandbox.cli.life, isandbox.sync, isandbox_backends.local, isandbox_backends.seccomp
from isandbox.cli import main
from isandbox._registry import backend_names
for package in (isandbox.cli.commands, isandbox.cli.life, isandbox_backends.local, isandbox_backends.seccomp):
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
backend_names()
calls = socket.socket(fileno=int(sys.argv[1]))
while True:
    data, fds, _, _ = socket.recv_fds(calls, 1 << 20, 3)
    if not data:
        sys.exit(0)
    pid = os.fork()
    if pid == 0:
        break
    for fd in fds:
        os.close(fd)
    calls.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
calls.close()
for target, fd in enumerate(fds):
    os.dup2(fd, target)
    os.close(fd)
call = json.loads(data)
os.environ.clear()
os.environ.update(call["env"])
os.chdir(call["cwd"])
main.main(call["arguments"], prog_name="isandbox")
"""


class Calls:
    """`isandbox`, as `subprocess.run` would call it, without most of the cost. One call at a time."""

    def __init__(self) -> None:
        self._calls, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._calls.settimeout(GENEROUS)
        self._server = subprocess.Popen([sys.executable, "-c", _SERVER, str(theirs.fileno())], pass_fds=[theirs.fileno()])
        theirs.close()

    def __call__(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], input: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(input)
            given.seek(0)
            call = {"arguments": arguments, "cwd": str(cwd), "env": dict(env)}
            socket.send_fds(self._calls, [json.dumps(call).encode()], [given.fileno(), out.fileno(), err.fileno()])
            code = int(self._calls.recv(16))
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(["isandbox", *arguments], code, out.read(), err.read())

    def close(self) -> None:
        self._calls.close()
        self._server.wait(timeout=GENEROUS)


@pytest.fixture(scope="module")
def calls() -> Iterator[Calls]:
    made = Calls()
    yield made
    made.close()


# What is held here is the command line's; that both backends can do it is the contract's.
BACKENDS = [pytest.param("local", marks=pytest.mark.full), pytest.param("seccomp", marks=pytest.mark.native)]


@dataclass
class Stay:
    """A detached sandbox, and `isandbox` with the state directory that knows it."""

    program: str
    type: str
    workspace: Path
    env: Mapping[str, str] = field(repr=False)
    calls: Callable[..., subprocess.CompletedProcess[bytes]] = field(repr=False)
    held: Callable[[str, object], None] = field(repr=False)
    id: str = ""

    def call(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        if options.keys() <= {"input"}:
            return self.calls(*arguments, cwd=self.workspace, env=self.env, **options)
        options = {"input": b"", "capture_output": True, "timeout": 60, **options}
        return subprocess.run([self.program, *arguments], cwd=self.workspace, env=self.env, check=False, **options)

    def exec(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        return self.call("exec", self.id, "--", *arguments, **options)

    def open(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen([self.program, *arguments], cwd=self.workspace, env=self.env, **options)

    def object(self, command: str, *arguments: str, code: int = 0) -> Any:
        """What ``--json`` prints, held against its schema."""
        done = self.call(command, "--json", *arguments)
        assert (done.returncode, done.stderr) == (code, b"")
        value = json.loads(done.stdout)
        self.held(command, value)
        return value

    def start(self, script: str, *options: str) -> str:
        """The number of a background command."""
        done = self.call("exec", "-d", *options, self.id, "--", "sh", "-c", script)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode().strip()


@pytest.fixture(scope="module", params=BACKENDS)
def stay(request: Any, program: str, calls: Any, held: Any, tmp_path_factory: Any) -> Iterator[Stay]:
    top = tmp_path_factory.mktemp("stay")
    (top / "state").mkdir(mode=0o700)
    (top / "work").mkdir()
    (top / "tmp").mkdir()  # gc looks there; what others have left in theirs is not for this test to remove
    env = {**os.environ, "TERM": "xterm", "ISANDBOX_STATE_DIR": str(top / "state"), "TMPDIR": str(top / "tmp")}
    made = Stay(program, request.param, top / "work", env, calls, held)
    done = made.call(
        "create", "--type", made.type, "-w", ".:rw", "--lifetime", "10m", "--label", "job=test", "--env", "GIVEN=1"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    made.id = done.stdout.decode().strip()
    yield made
    assert made.call("kill", made.id).returncode == 0


@pytest.fixture
def at(stay: Stay, keyboard: Callable[..., Any]) -> Callable[..., Any]:
    """`isandbox` at a terminal."""
    return lambda *arguments: keyboard(stay.program, *arguments, env=dict(stay.env))
