"""The commands around a sandbox that stays: one sandbox a backend for all of them."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the native helper is for Linux")

# What is held here is the command line's; that both backends can do it is the contract's.
BACKENDS = [pytest.param("local", marks=pytest.mark.full), pytest.param("seccomp", marks=pytest.mark.native)]
PROMPT = rb"\$ "


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
    env = {**os.environ, "TERM": "xterm", "ISANDBOX_STATE_DIR": str(top / "state")}
    made = Stay(program, request.param, top / "work", env, calls, held)
    done = made.call(
        "create", "--type", made.type, "-w", ".:rw", "--lifetime", "10m", "--label", "job=test", "--env", "GIVEN=1"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    made.id = done.stdout.decode().strip()
    yield made
    assert made.call("kill", made.id).returncode == 0
    assert made.call("gc").returncode == 0


@pytest.fixture
def at(stay: Stay, keyboard: Callable[..., Any]) -> Callable[..., Any]:
    """`isandbox` at a terminal."""
    return lambda *arguments: keyboard(stay.program, *arguments, env=dict(stay.env))


def test_create_prints_its_id(stay: Stay) -> None:
    """The id stands alone on stdout and begins with the backend's name."""
    assert stay.id.startswith(f"{stay.type}-")
    assert stay.id.isascii()
    assert "\n" not in stay.id


def test_ps(stay: Stay) -> None:
    """A listing has what there is to know of it, for people and for programs, chosen by label and type."""
    lines = stay.call("ps").stdout.decode().splitlines()
    row = next(line.split() for line in lines if line.startswith(stay.id))
    assert row[1:3] == [stay.type, "running"]
    assert row[-2:] == ["detached", "job=test"]
    assert stay.call("ls", "-q", "--label", "job=test", "--type", stay.type).stdout.decode().split() == [stay.id]
    assert stay.call("ps", "-q", "--label", "job=other").stdout == b""
    (one,) = stay.object("ps", "--label", "job=test")["sandboxes"]
    assert (one["id"], one["type"], one["state"], one["detached"]) == (stay.id, stay.type, "running", True)
    assert one["labels"] == {"job": "test"}
    assert one["expires_at"] is not None


def test_exec(stay: Stay) -> None:
    """Streams, exit codes, working directory and environment are the command's, as with `isandbox run`."""
    done = stay.exec("sh", "-c", "echo out $GIVEN; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out 1\n", b"err\n")
    (stay.workspace / "text").write_text("x")
    codes = {("no-such-program",): 127, ("./text",): 126, ("sh", "-c", "kill -TERM $$"): 143, ("true",): 0}
    assert {command: stay.exec(*command).returncode for command in codes} == codes
    done = stay.call("exec", "--timeout", "0.5", stay.id, "sh", "-c", "echo so far; sleep 60")
    assert (done.returncode, done.stdout) == (124, b"so far\n")
    assert b"timeout (after 0.5 s)" in done.stderr
    done = stay.call("exec", "-w", "/", "-e", "MORE=a=b", "-e", "COPIED", stay.id, "sh", "-c", "pwd; echo $MORE $COPIED")
    assert done.returncode == 2
    done = stay.call("exec", "-w", "/", "-e", "MORE=a=b", "-e", "TERM", stay.id, "sh", "-c", "pwd; echo $MORE $TERM")
    assert done.stdout == b"/\na=b xterm\n"


def test_exec_by_the_beginning_of_an_id(stay: Stay) -> None:
    """Four characters behind the backend's name are enough, three are not."""
    short = len(stay.type) + 1 + 4
    assert stay.call("exec", stay.id[:short], "true").returncode == 0
    done = stay.call("exec", stay.id[: short - 1], "true")
    assert (done.returncode, done.stderr.count(b"\n")) == (125, 1)
    assert b"4 characters" in done.stderr


def test_stdin(stay: Stay) -> None:
    """With -i every byte of stdin reaches the command; without it there is none, and nobody waits for it."""
    data = bytes(range(256)) * 4096
    assert stay.call("exec", "-i", stay.id, "cat", input=data).stdout == data
    read, write = os.pipe()
    try:
        assert stay.exec("cat", input=None, stdin=read).returncode == 0
        assert stay.call("exec", "-i", stay.id, "true", input=None, stdin=read).returncode == 0
    finally:
        os.close(read)
        os.close(write)


def test_exec_json(stay: Stay) -> None:
    """One object as `isandbox run` prints it, with the command's exit code; an error of ours is an object too."""
    result = stay.object("exec", stay.id, "sh", "-c", "echo out; echo err >&2; exit 3", code=3)
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\n", "err\n", 3)
    assert stay.object("exec", f"{stay.type}-{'0' * 16}", "true", code=125)["error"]["code"] == "not_found"


def test_head_and_full_disk(stay: Stay) -> None:
    """When nobody reads the output the command ends, with 141 and without a word; where it cannot be written, 125 says why."""
    with stay.open("exec", stay.id, "--", "sh", "-c", "echo $$ > pid; exec yes") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        try:
            assert running.stdout.readline() == b"y\n"
            running.stdout.close()
            assert running.wait(timeout=60) == 141
            assert running.stderr.read() == b""
        finally:
            running.kill()
    assert stay.exec("sh", "-c", "kill -0 $(cat pid)").returncode != 0
    with open("/dev/full", "wb") as full:
        done = stay.call("exec", stay.id, "echo", "x", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (125, b"isandbox: [Errno 28] No space left on device\n")


def test_closed_descriptors(stay: Stay) -> None:
    """With stdin, stdout and stderr closed the command still runs to its own exit code."""
    script = f'exec "{stay.program}" exec -i {stay.id} -- sh -c "cat; echo x; echo y >&2; exit 5" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", script], env=stay.env, input=b"", capture_output=True, timeout=60, check=False)
    assert done.returncode == 5


def test_signals(stay: Stay) -> None:
    """SIGINT is passed on and a second one kills; a hang-up that was ignored does not reach the command (nohup)."""
    with stay.open("exec", stay.id, "sh", "-c", "trap 'echo got' INT; echo ready; while :; do sleep 0.05; done") as running:
        assert running.stdout is not None
        try:
            for line in (b"ready\n", b"got\n"):
                assert running.stdout.readline() == line
                running.send_signal(signal.SIGINT)
            running.communicate(timeout=60)
            assert running.returncode == 128 + signal.SIGKILL
        finally:
            running.kill()
    script = f'trap "" HUP; exec "{stay.program}" exec -i {stay.id} sh -c "trap \'exit 9\' HUP; echo ready; read x; exit 4"'
    with subprocess.Popen(["sh", "-c", script], env=stay.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        try:
            assert running.stdout.readline() == b"ready\n"
            running.send_signal(signal.SIGHUP)
            running.communicate(b"x\n", timeout=60)
            assert running.returncode == 4
        finally:
            running.kill()


def test_killed(stay: Stay) -> None:
    """A command ends when the isandbox that runs it is killed by SIGKILL; the sandbox lives on."""
    with stay.open("exec", stay.id, "sh", "-c", "echo $$; exec sleep 1000") as running:
        assert running.stdout is not None
        pid = running.stdout.readline().decode().strip()
        running.kill()
        running.wait(timeout=60)
    gone = stay.exec("sh", "-c", f"for i in $(seq 200); do kill -0 {pid} 2>/dev/null || exit 0; sleep 0.05; done; exit 1")
    assert gone.returncode == 0


def test_background(stay: Stay) -> None:
    """A background command is numbered, listed, read from any place, followed, and signalled, by whoever comes."""
    number = stay.start(
        "echo out; echo err >&2; read x || echo none; trap 'echo bye; exit 3' USR1; while :; do sleep 0.05; done"
    )
    with stay.open("logs", "-f", stay.id, number) as following:
        assert following.stdout is not None
        try:
            assert [following.stdout.readline() for _ in range(2)] == [b"out\n", b"none\n"]
            (row,) = (one for one in stay.object("ps", stay.id)["commands"] if one["id"] == int(number))
            assert (row["running"], row["terminal"], row["exit_code"]) == (True, False, None)
            assert row["written"] == {"stdout": 9, "stderr": 4}
            done = stay.call("logs", stay.id, number)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"out\nnone\n", b"err\n")
            done = stay.call("logs", stay.id, number, "--tail", "3")
            assert (done.stdout, done.stderr) == (b"ne\n", b"rr\n")
            done = stay.call("logs", "--since", "4,1", stay.id)
            assert (done.stdout, done.stderr) == (b"none\n", b"rr\n")
            assert stay.object("kill", "-s", "USR1", stay.id, number)["signalled"] is True
            out, err = following.communicate(timeout=60)
            assert (following.returncode, out, err[:4]) == (0, b"bye\n", b"err\n")  # the shell may say why its sleep ended
        finally:
            following.kill()
    (row,) = (one for one in stay.object("ps", stay.id)["commands"] if one["id"] == int(number))
    assert (row["running"], row["exit_code"], row["written"]["stdout"]) == (False, 3, 13)
    assert any(
        line.split()[:1] == [number] and "exit 3" in line for line in stay.call("ps", stay.id).stdout.decode().splitlines()
    )
    assert number not in stay.call("ps", "-q", stay.id).stdout.decode().split()
    assert stay.call("logs", stay.id, number).stdout == b"out\nnone\nbye\n"
    assert stay.object("kill", "-s", "USR1", stay.id, number)["signalled"] is False


def test_background_that_does_not_start(stay: Stay) -> None:
    """-d of a program that is not there is 127 with the reason, and no number."""
    done = stay.call("exec", "-d", stay.id, "no-such-program")
    assert (done.returncode, done.stdout) == (127, b"")
    assert b"no-such-program" in done.stderr


def test_interrupted_following(stay: Stay) -> None:
    """Ctrl-C ends logs -f, and not the command."""
    number = stay.start("echo ready; exec sleep 1000")
    with stay.open("logs", "-f", stay.id, number) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"ready\n"
        following.send_signal(signal.SIGINT)
        assert following.wait(timeout=60) == 130
    assert number in stay.call("ps", "-q", stay.id).stdout.decode().split()
    assert stay.call("kill", "-s", "KILL", stay.id, number).returncode == 0
    assert stay.call("logs", "-f", stay.id, number).returncode == 0


def test_what_is_not_there(stay: Stay) -> None:
    """A sandbox or command that nobody knows is 125 and one line that says so."""
    unknown = f"{stay.type}-{'0' * 16}"
    for arguments in (
        ["exec", unknown, "true"],
        ["shell", unknown],
        ["ps", unknown],
        ["logs", unknown],
        ["inspect", unknown],
        ["kill", unknown],
        ["cp", "text", f"{unknown}:text"],
        ["logs", stay.id, "9999"],
        ["kill", "-s", "TERM", stay.id, "9999"],
        ["shell", stay.id, "--attach", "9999"],
        ["exec", "no-such-id", "true"],
    ):
        done = stay.call(*arguments)
        assert (done.returncode, done.stderr.count(b"\n")) == (125, 1), (arguments, done.stderr)
        assert done.stderr.startswith(b"isandbox: ")


def test_terminal(stay: Stay, at: Callable[..., Any]) -> None:
    """-t and -i connect the user's terminal with the command's: its size, its keys, its exit code."""
    screen = at("exec", "-t", "-i", stay.id, "--", "sh", "-c", "stty size; echo $TERM; read x; echo got $x; exit 6")
    screen.expect(rb"30 100\r\nxterm\r\n")
    screen.type(b"word\r")
    screen.expect(rb"got word\r\n")
    assert screen.exit_code() == 6
    assert screen.is_as_before()
    done = stay.call("exec", "-t", "-i", stay.id, "true")
    assert (done.returncode, done.stderr) == (
        125,
        b"isandbox: -t with -i: stdin is no terminal; leave out -t to pass it as it is\n",
    )
    screen = at(
        "exec", "-t", stay.id, "--", "sh", "-c", "echo ready; until test \"$(stty size)\" = '41 133'; do sleep 0.05; done"
    )
    screen.expect(rb"ready\r+\n")
    screen.resize(41, 133)
    assert screen.exit_code() == 0
    done = stay.call("exec", "-t", stay.id, "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size")
    assert (done.returncode, done.stdout) == (0, b"24 80\r\n")


def test_detached_shell(stay: Stay, at: Callable[..., Any]) -> None:
    """The detach keys and a closed window let go of a shell, which goes on; --attach takes it up, with the keys that it needs."""
    words = ["shell", stay.id, "--", "env", "PS1=$ ", "bash", "--norc", "--noprofile"]
    screen = at(*words)
    screen.expect(PROMPT)
    screen.type(b"v=kept; echo ready\r")
    screen.expect(rb"\rready\r\n")
    screen.type(b"\x10\x11")
    screen.expect(rb"isandbox shell \S+ --attach ")
    number = screen.expect(rb"\r\n").decode()
    assert screen.exit_code() == 0
    assert screen.is_as_before()
    assert number in stay.call("ps", "-q", stay.id).stdout.decode().split()

    screen = at("shell", stay.id, "--attach", number)
    screen.expect(PROMPT)
    screen.type(b"echo v=$v; stty size\r")
    screen.expect(rb"\rv=kept\r\n30 100\r\n")
    screen.hang_up()
    assert screen.running.wait(timeout=60) == 128 + signal.SIGHUP

    screen = at("shell", stay.id, "--attach", number, "--detach-keys", "x,ctrl-a")
    screen.expect(PROMPT)
    screen.type(b"echo x=$v\r")
    screen.expect(rb"\rx=kept\r\n")
    screen.running.send_signal(signal.SIGTERM)
    screen.expect(b"it goes on")
    assert screen.exit_code() == 128 + signal.SIGTERM

    with stay.open("shell", stay.id, "--attach", number, stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b'echo by-"$v"\r')
        running.stdin.close()
        assert any(b"by-kept\r\n" in line for line in running.stdout)
        assert running.poll() is None
        running.terminate()
    assert number in stay.call("ps", "-q", stay.id).stdout.decode().split()

    screen = at("shell", stay.id, "--attach", number)
    screen.expect(PROMPT)
    screen.type(b"exit 5\r")
    assert screen.exit_code() == 5
    assert screen.is_as_before()
    assert b"v=kept" in stay.call("logs", stay.id, number).stdout


def test_output_is_made_harmless(stay: Stay, at: Callable[..., Any]) -> None:
    """exec and logs at a terminal show a title and do not set it; --raw, and a pipe, have the bytes."""
    script = r"printf '\033]0;title\007end\n'"
    for arguments in (["exec", stay.id, "--", "sh", "-c", script], ["logs", stay.id, stay.start(script)]):
        screen = at(*arguments)
        assert b"\x1b]" not in screen.expect(b"end")
        assert screen.exit_code() == 0
        screen = at(arguments[0], "--raw", *arguments[1:])
        assert b"\x1b]0;title\x07" in screen.expect(b"end")
        assert screen.exit_code() == 0
        assert b"\x1b]0;title\x07end\n" in stay.call(*arguments).stdout


def test_cp(stay: Stay) -> None:
    """Files and trees go in and come out, under their own name in a directory that is there; archives are unpacked inside."""
    here = stay.workspace / "here"
    (here / "tree" / "deep").mkdir(parents=True)
    (here / "tree" / "deep" / "file").write_bytes(b"\x00\xff")
    (here / "a:b").write_text("colon")
    assert stay.exec("mkdir", "dir").returncode == 0
    assert stay.object("cp", "here/./a:b", f"{stay.id}:dir/new") == {"files": 1, "bytes": 5}
    assert stay.call("cp", "here/tree", f"{stay.id}:dir").returncode == 125
    assert stay.call("cp", "-r", "here/tree", f"{stay.id}:dir").returncode == 0
    assert stay.exec("cat", "dir/new", "dir/tree/deep/file").stdout == b"colon\x00\xff"
    assert stay.call("cp", f"{stay.id}:dir/tree", "out").returncode == 125
    assert stay.call("cp", "-r", f"{stay.id}:dir/tree", "out").returncode == 0
    assert stay.call("cp", f"{stay.id}:dir/new", "here").returncode == 0
    assert (stay.workspace / "out" / "deep" / "file").read_bytes() == b"\x00\xff"
    assert (here / "new").read_text() == "colon"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as writing:
        member = tarfile.TarInfo("member")
        member.size = 3
        writing.addfile(member, io.BytesIO(b"tar"))
    assert stay.call("cp", "-", f"{stay.id}:unpacked", input=archive.getvalue()).returncode == 0
    assert stay.exec("cat", "unpacked/member").stdout == b"tar"
    for arguments in (
        [f"{stay.id}:text", "-"],
        ["text", "more"],
        [f"{stay.id}:text", f"{stay.id}:more"],
        ["none", f"{stay.id}:x"],
    ):
        done = stay.call("cp", *arguments)
        assert (done.returncode, done.stderr.count(b"\n")) == (125, 1), arguments


def test_inspect(stay: Stay) -> None:
    """What it is, what holds and what it uses is said, for people and for programs."""
    number = stay.start("sleep 1000")
    found = stay.object("inspect", stay.id)
    assert (found["id"], found["state"], found["labels"]) == (stay.id, "running", {"job": "test"})
    assert found["quotas"]["pids"] == 256
    assert found["metrics"]["processes"] >= 1
    assert any(one["id"] == int(number) and one["running"] for one in found["commands"])
    text = stay.call("inspect", stay.id).stdout.decode()
    assert f"workspace    {found['workspace']}\n" in text
    assert "labels       job=test\n" in text
    assert stay.call("kill", "-s", "KILL", stay.id, number).returncode == 0


def test_create_once(stay: Stay) -> None:
    """A second create under one key prints the same id, one with other options is refused; kill says what it did."""
    words = ["create", "--type", stay.type, "-w", ".:rw", "--lifetime", "5m", "--idempotency-key", "k1"]
    first, second = (stay.call(*words) for _ in range(2))
    assert first.returncode == 0
    assert first.stdout == second.stdout
    done = stay.call(*words, "--label", "other=1")
    assert (done.returncode, done.stdout) == (125, b"")
    made = first.stdout.decode().strip()
    done = stay.call("kill", made, f"{stay.type}-{'0' * 16}")
    assert (done.returncode, done.stdout) == (125, first.stdout)
    assert stay.object("kill", made) == {"sandboxes": [{"id": made, "killed": False}]}
    assert stay.call("kill", made).returncode == 0
    assert made not in stay.call("ps", "-q").stdout.decode().split()
    assert stay.object("inspect", made)["state"] == "ended"
    assert stay.call(*words).returncode == 125


def test_create_that_nobody_hears_of(stay: Stay) -> None:
    """When the id cannot be printed no sandbox is left."""
    with open("/dev/full", "wb") as full:
        words = ["create", "--type", stay.type, "-w", ".:rw", "--label", "lost=1"]
        done = stay.call(*words, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 125
    assert stay.call("ps", "-q", "--label", "lost=1").stdout == b""


def test_create_json(stay: Stay) -> None:
    """An object with the id and what it is."""
    made = stay.object("create", "--type", stay.type, "-w", ".:rw", "--idle-timeout", "90", "--label", "a=b")
    try:
        assert (made["lifetime"], made["idle_timeout"], made["labels"], made["type"]) == (3600, 90, {"a": "b"}, stay.type)
    finally:
        assert stay.call("kill", made["id"]).stdout.decode().strip() == made["id"]


def test_sandbox_that_ends(stay: Stay, at: Callable[..., Any]) -> None:
    """When the sandbox is killed, exec and shell are 125 and say that it is lost; the terminal is as it was."""
    made = stay.call("create", "--type", stay.type, "-w", ".:rw").stdout.decode().strip()
    screen = at("shell", made, "--", "sh", "-c", "echo ready; exec sleep 1000")
    screen.expect(rb"ready\r\n")
    with stay.open("exec", made, "sh", "-c", "echo ready; exec sleep 1000") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        assert stay.call("kill", made).returncode == 0
        _, said = running.communicate(timeout=60)
    assert (running.returncode, said.count(b"\n")) == (125, 1)
    assert b"lost" in said
    screen.expect(rb"isandbox: [^\r]*lost")
    assert screen.exit_code() == 125
    assert screen.is_as_before()


def test_completion(stay: Stay) -> None:
    """A shell completes the ids of sandboxes that run."""
    words = {"_ISANDBOX_COMPLETE": "bash_complete", "COMP_WORDS": f"isandbox exec {stay.type}-", "COMP_CWORD": "2"}
    done = stay.calls(cwd=stay.workspace, env={**stay.env, **words})
    assert f"plain,{stay.id}".encode() in done.stdout.splitlines()


def test_gc(stay: Stay) -> None:
    """Nothing of what lives is removed, and a dry run says what would be."""
    assert stay.id not in stay.object("gc", "--dry-run")["removed"]
    assert stay.id not in stay.object("gc")["removed"]
    assert stay.exec("true").returncode == 0
