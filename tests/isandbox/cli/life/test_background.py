"""Commands that go on without anybody, and the shells that are such."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the native helper is for Linux")

PROMPT = rb"\$ "


def test_background(stay: Any) -> None:
    """A background command is numbered, listed, read from any place, followed, and signalled, by whoever comes."""
    number = stay.start(
        "trap 'echo bye; exit 3' USR1; echo out; echo err >&2; read x || echo none; while :; do sleep 0.05; done"
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
            done = stay.call("logs", stay.id, number, "--tail", "1")
            assert (done.stdout, done.stderr) == (b"none\n", b"err\n")
            with stay.open("logs", "-f", "-n", "1", stay.id, number) as last:
                assert last.stdout is not None
                assert last.stdout.readline() == b"none\n"
                last.terminate()
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


def test_background_that_does_not_start(stay: Any) -> None:
    """-d of a program that is not there is 127 with the reason, and no number."""
    done = stay.call("exec", "-d", stay.id, "no-such-program")
    assert (done.returncode, done.stdout) == (127, b"")
    assert b"no-such-program" in done.stderr


def test_interrupted_following(stay: Any) -> None:
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


def test_detached_shell(stay: Any, at: Callable[..., Any]) -> None:
    """The detach keys and a closed window let go of a shell, which goes on; --attach takes it up, with the keys that it needs."""
    words = ["shell", stay.id, "--", "env", "PS1=$ ", "bash", "--norc", "--noprofile"]
    screen = at(*words)
    screen.expect(PROMPT)
    screen.type(b"v=kept; echo ready\r")
    screen.expect(rb"\rready\r\n")
    screen.expect(PROMPT)
    screen.type(b"\x10\x11")
    screen.expect(rb"\r\nisandbox: it goes on; [^\r\n]*isandbox shell \S+ --attach ")
    number = screen.expect(rb"\r\n").decode()
    assert screen.exit_code() == 0
    assert screen.is_as_before()
    assert number in stay.call("ps", "-q", stay.id).stdout.decode().split()

    screen = at("shell", stay.id, "--attach", number)
    screen.type(b"echo v=$v; stty size\r")  # before it has drawn: what is typed waits until the size is the user's
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


def test_output_is_made_harmless(stay: Any, at: Callable[..., Any]) -> None:
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
