"""`isandbox shell` without an id: a terminal session in a sandbox that ends with it."""

import os
import select
import signal
import sys
import termios
import threading
import time
import tty

import psutil
import pytest
from pexpect import TIMEOUT

from isandbox.cli.life import terminal
from isandbox.cli.life.keys import DetachKeys
from isandbox.cli.life.session import Session

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the native helper is for Linux")

# What is held here is the command line's; that both backends can do it is the contract's.
BACKENDS = [pytest.param("local", marks=pytest.mark.full), pytest.param("seccomp", marks=pytest.mark.native)]
PROMPT = rb"\$ "


@pytest.fixture(params=BACKENDS)
def shell(request, program):
    """The words that open a shell of one backend."""
    return [program, "shell", "--type", request.param, "-w", ".:rw"]


def in_sh(script):
    return ["--", "sh", "-c", script]


def bash(*more):
    """An interactive bash that reads nobody's start-up files."""
    return ["--env", "PS1=$ ", *more, "--", "bash", "--norc", "--noprofile"]


def test_session(shell, keyboard):
    """A shell has a terminal of its own with the user's size and type, job control, and every key; its exit code is ours."""
    at = keyboard(*shell, *bash())
    at.expect(PROMPT)
    at.type(b"stty size; echo TERM=$TERM; test -t 0 && test -t 1 && test -t 2 && echo tty\r")
    at.expect(rb"\r30 100\r\nTERM=xterm\r\ntty\r\n")
    at.resize(41, 133)
    at.type(b"until test \"$(stty size)\" = '41 133'; do sleep 0.05; done; echo follows\r")
    at.expect(rb"\rfollows\r\n")
    at.type(b"echo ready; cat\r")
    at.expect(rb"\rready\r\n")
    at.type(b"word\r")
    at.expect(rb"word\r\nword\r\n")
    at.type(b"\x03")
    at.expect(rb"\^C")
    at.expect(PROMPT)
    at.type(b"echo rc=$?; cat\r")
    at.expect(rb"rc=130\r\n")
    at.type(b"once more\r")
    at.expect(rb"once more\r\nonce more\r\n")
    at.type(b"\x1a")
    at.expect(rb"Stopped")
    at.type(b"jobs; fg\r")
    at.expect(rb"\[1\]\+\s+Stopped\s+cat\r\n")
    at.expect(rb"cat\r\n")
    at.type(b"again\r")
    at.expect(rb"again\r\nagain\r\n")
    at.type(b"\x04")
    at.expect(PROMPT)
    at.type(b"seq 200000 | tail -n 1; kill -0 $$ && exit 7\r")
    at.expect(rb"\r200000\r\n")
    assert at.exit_code() == 7
    assert at.is_as_before()


def test_nothing_of_the_host_terminal(shell, keyboard):
    """The terminal inside is not the user's: another device, with none of the user's to open."""
    at = keyboard(*shell, *in_sh("test /dev/tty -ef /proc/self/fd/0; stat -L -c dev=%d:%i /proc/self/fd/0; echo end"))
    inside = at.expect(rb"end\r\n")
    theirs = os.fstat(at.theirs)
    assert b"dev=" in inside
    assert f"dev={theirs.st_dev}:{theirs.st_ino}\r".encode() not in inside
    assert at.exit_code() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signalled(shell, keyboard, number):
    """SIGTERM and SIGHUP end the session and the shell, with 128 + n, and the terminal is as it was."""
    at = keyboard(*shell, *in_sh("trap '' TERM HUP; echo ready; while :; do sleep 0.1; done"))
    at.expect(b"ready")
    assert not at.is_as_before()
    at.running.send_signal(number)
    assert at.exit_code() == 128 + number
    assert at.is_as_before()


def test_interrupted_from_elsewhere(shell, keyboard):
    """A SIGINT that no key sent goes to the command."""
    at = keyboard(*shell, *in_sh("trap 'echo got; exit 9' INT; echo ready; while :; do sleep 0.1; done"))
    at.expect(b"ready")
    at.running.send_signal(signal.SIGINT)
    at.expect(b"got")
    assert at.exit_code() == 9
    assert at.is_as_before()


@pytest.mark.parametrize("hang_up", ["", "trap '' HUP; "])
def test_window_closed(shell, keyboard, hang_up):
    """When the terminal is gone the shell ends, whatever it thinks of signals, and also under nohup."""
    script = "trap '' HUP TERM; echo ready; while :; do sleep 0.1; done"
    at = keyboard("sh", "-c", hang_up + 'exec "$@"', "sh", *shell, *in_sh(script))
    at.expect(b"ready")
    at.hang_up()
    assert at.running.wait(timeout=60) == 128 + signal.SIGHUP


# A shell with job control, but one that leaves the terminal's settings alone: it stops its job, says how the terminal is, and
# brings the job back to the foreground.
OUTSIDE = """
import os, signal, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
def settings():
    return "cooked" if termios.tcgetattr(0)[3] & termios.ICANON else "raw"
while os.WIFSTOPPED(status := os.waitpid(pid, os.WUNTRACED)[1]):
    os.tcsetpgrp(0, os.getpid())
    print("stopped", settings(), flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
print("ended", settings(), os.waitstatus_to_exitcode(status), flush=True)
"""


def test_stopped(shell, keyboard):
    """A stop from elsewhere gives the terminal back to the shell outside, and fg takes the session up again."""
    script = "echo ready; read x; echo got $x; exit 3"
    at = keyboard(sys.executable, "-c", OUTSIDE, *shell, *in_sh(script))
    at.expect(rb"ready\r\n")
    (job,) = psutil.Process(at.running.pid).children()
    job.send_signal(signal.SIGTSTP)
    at.expect(rb"stopped cooked\r\n")
    at.resize(20, 60)
    at.type(b"\n")
    at.expect(rb"\n")
    until(lambda: not at.is_as_before())
    at.type(b"word\r")
    at.expect(rb"got word\r\n")
    at.expect(rb"ended cooked 3\r\n")
    assert at.exit_code() == 0


# As a shell with a line editor: the terminal is in a mode of its own until a job gets it.
IN_THE_BACKGROUND = (
    OUTSIDE.replace("    os.tcsetpgrp(0, os.getpid())\n    signal.signal", "    signal.signal")
    .replace(
        "pid = os.fork()",
        "cooked, own = termios.tcgetattr(0), termios.tcgetattr(0)\n"
        "own[3] &= ~termios.ICANON\ntermios.tcsetattr(0, termios.TCSANOW, own)\npid = os.fork()",
    )
    .replace("    os.tcsetpgrp(0, pid)", "    termios.tcsetattr(0, termios.TCSANOW, cooked)\n    os.tcsetpgrp(0, pid)")
)


def test_started_in_the_background(shell, keyboard):
    """A session that begins with & waits to be brought to the foreground, and gives back the terminal that it was given there."""
    at = keyboard(sys.executable, "-c", IN_THE_BACKGROUND, *shell, *in_sh("echo ready; read x; echo got $x; exit 3"))
    at.expect(rb"stopped raw\r\n")
    at.type(b"\n")
    at.expect(rb"ready\r\n")
    until(lambda: not at.is_as_before())
    at.type(b"word\r")
    at.expect(rb"got word\r\n")
    at.expect(rb"ended cooked 3\r\n")
    assert at.exit_code() == 0


def until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_full_screen(shell, keyboard, project):
    """A full-screen program draws for the size it has, and again when that changes; its last words restore the screen."""
    (project / "text").write_text("".join(f"line {number}\n" for number in range(1, 201)))
    at = keyboard(*shell, "--", "less", "text")
    at.expect(rb"\x1b\[\?1049h")
    at.expect(rb"line 29\r\n")
    at.resize(50, 100)
    # less misses a SIGWINCH that comes just before it waits for a key; with the next one it sees it.
    until(lambda: at.type(b"r") or at.screen.expect([rb"line 49\r\n", TIMEOUT], timeout=1) == 0)
    at.type(b"G")
    at.expect(rb"line 200")
    at.type(b"q")
    at.expect(rb"\x1b\[\?1049l")
    assert at.exit_code() == 0
    assert at.is_as_before()


def test_typed_ahead(shell, keyboard, project):
    """What was typed for the sandbox and not read is never read by the shell outside; modes that type are off."""
    script = "stty raw -echo; printf '\\033[?1003h\\033[?2004h'; echo ready; until test -e go; do sleep 0.05; done"
    at = keyboard("sh", "-c", 'isandbox=$1; shift; "$isandbox" "$@"; head -n 1', "sh", *shell, *in_sh(script))
    at.expect(b"ready")
    os.set_blocking(at.master, False)
    while select.select([], [at.master], [], 0.5)[1]:  # until every buffer on the way is full
        os.write(at.master, b"rm -rf precious\r")
    os.set_blocking(at.master, True)
    (project / "go").touch()
    at.expect(rb"\x1b\[\?[0-9;]*1003;[0-9;]*2004l")
    until(at.is_as_before)
    at.type(b"own\r")
    at.expect(rb"own\r\n")
    assert b"precious" not in at.expect(rb"own\r\n")
    assert at.exit_code() == 0


def test_script(isandbox):
    """Where stdin is no terminal the shell reads it as a script, and has none itself; output is in its own two streams."""
    done = isandbox("shell", "--type", "local", "-w", ".:rw", input=b"test -t 0 || echo none; echo err >&2; exit 4\n")
    assert (done.returncode, done.stdout, done.stderr) == (4, b"none\n", b"err\n")


def test_errors(isandbox, keyboard, program):
    """What cannot be made or started is one line and the exit code of `isandbox run`; the terminal has not been touched."""
    done = isandbox("shell", "--type", "local", input=b"")
    assert (done.returncode, done.stderr.count(b"\n")) == (125, 1)
    assert b"-w DIR:rw" in done.stderr
    done = isandbox("shell", "local-0000", "--detach-keys", "nonsense", input=b"")
    assert done.returncode == 125
    at = keyboard(program, "shell", "--type", "local", "-w", ".:rw", "--", "no-such-program")
    at.expect(rb"isandbox: no-such-program: No such file or directory\r\n")
    assert at.exit_code() == 127
    assert at.is_as_before()


def test_answers_of_the_terminal(keyboard, program):
    """What the terminal answers to a program that has ended by then is never read by the shell outside."""
    words = [program, "shell", "--type", "local", "-w", ".:rw", *in_sh("printf 'ask\\033[6n'")]
    at = keyboard("sh", "-c", '"$@"; head -n 1', "sh", *words)
    at.expect(rb"ask\x1b\[6n")
    at.expect(rb"\x1b\[c")  # far away the first answer sets out only now
    at.type(b"\x1b[12;34R")
    at.type(b"\x1b[?62;22c")
    until(at.is_as_before)
    at.type(b"own\r")
    at.expect(rb"own\r\n")
    assert b"12" not in at.expect(rb"own\r\n")
    assert at.exit_code() == 0


def test_a_terminal_that_does_not_answer(keyboard, program):
    """Whoever asks a terminal that gives no answers gets none, and the session ends all the same."""
    at = keyboard(program, "shell", "--type", "local", "-w", ".:rw", *in_sh("printf 'ask\\033[6n'; exit 5"))
    at.expect(rb"\x1b\[c")
    assert at.exit_code() == 5
    assert at.is_as_before()


@pytest.mark.parametrize("script", ["printf '\\033]0;unfinished'", "printf '\\033P+q'; kill -9 $$", "printf '\\033[3'"])
def test_an_unfinished_sequence(keyboard, program, script):
    """A string or sequence in whose middle the program ended does not swallow what calms the terminal."""
    at = keyboard(program, "shell", "--type", "local", "-w", ".:rw", *in_sh(script))
    at.expect(rb"\x18\x1b\\\x1b\[=0u\x1b\[\?1047l\x1b\[=0u")
    at.expect(rb"\x1b\[2;4;20l.*\x1b\[r\x1b8\x1b\[\?7h")
    assert at.exit_code() in (0, 137)


def test_quit_from_elsewhere(keyboard, program):
    """SIGQUIT ends the session with the terminal as it was, too."""
    at = keyboard(program, "shell", "--type", "local", "-w", ".:rw", *in_sh("echo ready; while :; do sleep 0.1; done"))
    at.expect(b"ready")
    at.running.send_signal(signal.SIGQUIT)
    assert at.exit_code() == 128 + signal.SIGQUIT
    assert at.is_as_before()


def test_a_signal_right_after_the_change(monkeypatch):
    """Also when a signal ends us between the change to raw mode and the next line, the terminal is as it was."""
    master, theirs = os.openpty()
    try:
        before = termios.tcgetattr(theirs)
        real = tty.setraw

        def ended(_fd, when):
            real(theirs, when)
            raise KeyboardInterrupt

        monkeypatch.setattr(terminal, "STDIN", theirs)
        monkeypatch.setattr(terminal, "STDOUT", -1)
        monkeypatch.setattr(tty, "setraw", ended)
        raw = terminal.RawTerminal()
        with pytest.raises(KeyboardInterrupt):
            raw.enter()
        assert termios.tcgetattr(theirs) != before
        raw.leave()
        assert termios.tcgetattr(theirs) == before
    finally:
        os.close(master)
        os.close(theirs)


class _Deaf:
    """A command that runs on, and takes no input any more."""

    def __init__(self, refused):
        self.refused = refused

    def write_stdin(self, data):
        self.refused.set()
        raise BrokenPipeError

    def resize(self, rows, columns):
        pass

    def __iter__(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(0.05)
        return iter(())


def test_leaving_what_takes_no_input(monkeypatch):
    """The keys that leave a command do so also after it has refused a key."""
    master, theirs = os.openpty()
    standard = os.dup(0)
    refused = threading.Event()
    try:
        os.dup2(theirs, 0)
        monkeypatch.setattr(terminal, "STDOUT", -1)

        def keys():
            os.write(master, b"x")
            refused.wait(60)
            os.write(master, b"\x10\x11")

        typist = threading.Thread(target=keys)
        typist.start()
        assert Session(_Deaf(refused), DetachKeys(b"\x10\x11")).run() == "let go"
        typist.join(60)
    finally:
        os.dup2(standard, 0)
        for fd in (standard, master, theirs):
            os.close(fd)
