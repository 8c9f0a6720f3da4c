"""`isandbox exec` in a sandbox that stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the native helper is for Linux")


def test_exec(stay: Any) -> None:
    """Streams, exit codes, working directory and environment are the command's, as with `isandbox run`."""
    done = stay.exec("sh", "-c", "echo out $GIVEN; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out 1\n", b"err\n")
    (stay.workspace / "text").write_text("x")
    codes = {("no-such-program",): 127, ("./text",): 126, ("sh", "-c", "kill -TERM $$"): 143, ("true",): 0}
    assert {command: stay.exec(*command).returncode for command in codes} == codes
    done = stay.call("exec", "--timeout", "2", stay.id, "sh", "-c", "echo so far; sleep 60")
    assert (done.returncode, done.stdout) == (124, b"so far\n")
    assert b"timeout (after 2 s)" in done.stderr
    done = stay.call("exec", "-w", "/", "-e", "MORE=a=b", "-e", "COPIED", stay.id, "sh", "-c", "pwd; echo $MORE $COPIED")
    assert done.returncode == 2
    done = stay.call("exec", "-w", "/", "-e", "MORE=a=b", "-e", "TERM", stay.id, "sh", "-c", "pwd; echo $MORE $TERM")
    assert done.stdout == b"/\na=b xterm\n"


def test_exec_by_the_beginning_of_an_id(stay: Any) -> None:
    """Four characters behind the backend's name are enough, three are not."""
    short = len(stay.type) + 1 + 4
    assert stay.call("exec", stay.id[:short], "true").returncode == 0
    done = stay.call("exec", stay.id[: short - 1], "true")
    assert (done.returncode, done.stderr.count(b"\n")) == (125, 1)
    assert b"4 characters" in done.stderr


def test_stdin(stay: Any) -> None:
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


def test_exec_json(stay: Any) -> None:
    """One object as `isandbox run` prints it, with the command's exit code; an error of ours is an object too."""
    result = stay.object("exec", stay.id, "sh", "-c", "echo out; echo err >&2; exit 3", code=3)
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\n", "err\n", 3)
    assert stay.object("exec", f"{stay.type}-{'0' * 16}", "true", code=125)["error"]["code"] == "not_found"


def test_head_and_full_disk(stay: Any) -> None:
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
    gone = "for i in $(seq 200); do kill -0 $(cat pid) 2>/dev/null || exit 0; sleep 0.05; done; exit 1"
    assert stay.exec("sh", "-c", gone).returncode == 0
    with open("/dev/full", "wb") as full:
        done = stay.call("exec", stay.id, "echo", "x", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (125, b"isandbox: standard output: No space left on device\n")


def test_closed_descriptors(stay: Any) -> None:
    """With stdin, stdout and stderr closed the command still runs to its own exit code."""
    script = f'exec "{stay.program}" exec -i {stay.id} -- sh -c "cat; echo x; echo y >&2; exit 5" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", script], env=stay.env, input=b"", capture_output=True, timeout=60, check=False)
    assert done.returncode == 5


def test_signals(stay: Any) -> None:
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


def test_killed(stay: Any) -> None:
    """A command ends when the isandbox that runs it is killed by SIGKILL; the sandbox lives on."""
    with stay.open("exec", stay.id, "sh", "-c", "echo $$; exec sleep 1000") as running:
        assert running.stdout is not None
        pid = running.stdout.readline().decode().strip()
        running.kill()
        running.wait(timeout=60)
    gone = stay.exec("sh", "-c", f"for i in $(seq 1000); do kill -0 {pid} 2>/dev/null || exit 0; sleep 0.05; done; exit 1")
    assert gone.returncode == 0


def test_terminal(stay: Any, at: Callable[..., Any]) -> None:
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
