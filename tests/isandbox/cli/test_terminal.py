"""`isandbox run` with a terminal: what a person at the keyboard gets."""

import os
import pty
import select
import subprocess
import sys
import termios
import time

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the native helper is for Linux")


# Makes the terminal that it has as stdin its controlling one, then becomes the program.
_BECOME = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Terminal:
    """A program in a session of its own, with a pseudo-terminal as its controlling terminal and all three descriptors."""

    def __init__(self, arguments, cwd):
        self.master, theirs = pty.openpty()
        self.running = subprocess.Popen(
            [sys.executable, "-c", _BECOME, *arguments],
            cwd=cwd,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self.theirs = theirs  # kept open: the terminal's settings outlive the program
        self.seen = b""

    def expect(self, text):
        end = time.monotonic() + 60
        while text not in self.seen:
            assert select.select([self.master], [], [], max(0, end - time.monotonic()))[0], self.seen
            self.seen += os.read(self.master, 4096)
        before, _, self.seen = self.seen.partition(text)
        return before

    def exit_code(self):
        end = time.monotonic() + 60
        while self.running.poll() is None:
            assert time.monotonic() < end, "still running"
            if select.select([self.master], [], [], 0.05)[0]:  # a terminal that nobody reads would stop it
                os.read(self.master, 4096)
        return self.running.returncode

    def close(self):
        self.running.kill()
        self.running.wait(timeout=60)
        os.close(self.master)
        os.close(self.theirs)


@pytest.fixture(params=["local", pytest.param("seccomp", marks=pytest.mark.native)])
def terminal(request, program, project):
    """Starts a shell script under `isandbox run` at a terminal."""
    made = []

    def start(script, *options):
        arguments = [program, "run", "--type", request.param, "-w", ".:rw", *options, "--", "sh", "-c", script]
        made.append(Terminal(arguments, project))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_interrupt_key(terminal):
    """Ctrl-C at the keyboard reaches the command once, and only through isandbox."""
    running = terminal("trap 'echo got; exit 9' INT; echo ready; while :; do sleep 0.05; done")
    running.expect(b"ready")
    os.write(running.master, b"\x03")
    running.expect(b"got")
    assert running.exit_code() == 9


def test_second_interrupt_key(terminal):
    """The second Ctrl-C kills a command that does not care about the first."""
    running = terminal("trap 'echo no' INT; echo ready; while :; do sleep 0.05; done")
    running.expect(b"ready")
    os.write(running.master, b"\x03")
    running.expect(b"no")
    os.write(running.master, b"\x03")
    running.expect(b"cancelled")
    assert running.exit_code() == 137


def test_keyboard_is_stdin(terminal):
    """A line that is typed is read by the command, and Ctrl-D is its end of input."""
    running = terminal("read x; echo got $x; cat; echo end")
    os.write(running.master, b"word\n")
    running.expect(b"got word")
    os.write(running.master, b"\x04")
    running.expect(b"end")
    assert running.exit_code() == 0


def test_terminal_is_not_handed_in(terminal):
    """The command has no terminal: not as a descriptor, and none to open."""
    running = terminal(
        "for fd in 0 1 2; do test -t $fd && echo LEAK; done; (: < /dev/tty) 2>/dev/null && echo LEAK; echo done"
    )
    assert b"LEAK" not in running.expect(b"done")
    assert running.exit_code() == 0


def test_terminal_is_left_as_it_was(terminal):
    """Whatever becomes of the terminal's settings while the command runs, they are as before at its end."""
    running = terminal("echo ready; read x; exit 3")
    running.expect(b"ready")
    before = termios.tcgetattr(running.master)
    changed = termios.tcgetattr(running.master)
    changed[3] &= ~termios.ECHO
    termios.tcsetattr(running.master, termios.TCSANOW, changed)
    os.write(running.master, b"x\n")
    assert running.exit_code() == 3
    assert termios.tcgetattr(running.master) == before


TITLE = r"printf '\033[31mred\033]0;title\007\033[6n end'; echo"


def test_output_does_not_act_on_the_terminal(terminal):
    """Colours of a command reach the terminal; its title and its request for an answer are shown instead, on both streams."""
    for script in (TITLE, f"({TITLE}) >&2"):
        running = terminal(script)
        assert running.expect(b" end").endswith(rb"\x1b]0;title\x07\x1b[6n")
        assert running.exit_code() == 0


def test_output_that_is_wanted_raw(terminal):
    """With --raw the same bytes reach the terminal as they are."""
    running = terminal(TITLE, "--raw")
    assert running.expect(b" end") == b"\x1b[31mred\x1b]0;title\x07\x1b[6n"
    assert running.exit_code() == 0


def test_what_isandbox_says_is_not_concealed(terminal):
    """A command that leaves the terminal writing invisibly does not hide how it ended."""
    running = terminal(r"printf '\033[8m'; exec sleep 60", "--timeout", "0.5")
    assert running.expect(b"the sandbox ended the command").endswith(b"\x1b[8m\x1b[0misandbox: ")
