"""Programs for people at a terminal, in each profile: a shell, an editor, a pager, an interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from isandbox import TerminalSize
from isandbox.sync import create_sandbox

pytestmark = pytest.mark.native


@pytest.fixture(scope="module", params=["default", "strict", "debug"])
def place(request: pytest.FixtureRequest, sandbox_tmp: Any) -> Iterator[Any]:
    with create_sandbox("seccomp", profile=request.param) as sandbox:
        yield sandbox


class Screen:
    """What the terminal has shown since it was last looked for something."""

    def __init__(self, process: Any) -> None:
        self.process, self.text, self._output = process, "", iter(process)

    def shows(self, text: str) -> None:
        while text not in self.text:
            self.text += next(self._output)[1].decode("utf-8", "replace")
        self.text = self.text.partition(text)[2]

    def types(self, text: str) -> None:
        self.process.write_stdin(text.encode())


@pytest.fixture
def at(place: Any) -> Iterator[Callable[..., Screen]]:
    """``at(argv, env)``: a program with a terminal, ended with the test; none may take longer than a minute."""
    processes = []

    def begin(*argv: str, **env: str) -> Screen:
        processes.append(place.start(argv, terminal=TerminalSize(24, 80), env=env, timeout=60))
        return Screen(processes[-1])

    yield begin
    for process in processes:
        process.kill()


def test_bash(at: Callable[..., Screen], tools: Callable[..., str]) -> None:
    """Line editing, history, completion, jobs and a resize, as a person uses them."""
    tools("bash", "bash", cheap=True)
    screen = at("bash", "--norc", "--noprofile", "-i", PS1="prompt> ")

    def asks(typed: str) -> None:
        screen.shows("prompt> ")  # before, the terminal is not the line editor's yet
        screen.types(typed)

    asks("echo wrng\x1b[D\x1b[D\x1b[Do\n")  # three to the left
    screen.shows("worng\r\n")
    asks("\x1b[A\x7f\x7f\x7fy\n")  # the same again, with another end
    screen.shows("woy\r\n")
    asks("ls /et\t\n")
    screen.shows("passwd")
    asks("sh -c 'echo be\"\"gun; exec cat'\n")
    screen.shows("begun\r\n")  # it is in the foreground by now
    screen.types("\x1a")
    screen.shows("Stopped")
    asks("kill %1; wait %1; echo status=$((100 + 43))\n")
    screen.shows("status=143")
    screen.process.resize(33, 99)
    asks("stty size\n")
    screen.shows("33 99\r\n")
    asks("exit 9\n")
    assert screen.process.wait().exit_code == 9


def test_vi(at: Callable[..., Screen], place: Any, tools: Callable[..., str]) -> None:
    """An editor draws its screen, takes keys and writes its file."""
    vi = tools("vi", "vim-tiny")
    screen = at(vi, "-u", "NONE", "text.txt")
    screen.shows("text.txt")
    screen.types("\r")  # under `strict` vim says that it has no timers, and waits for this
    screen.types("ifirst line")
    screen.shows("first line")
    screen.types("\x1b")
    screen.shows("\b")  # back on the last letter: with the next key at its heels an escape would be the start of another
    screen.types(":wq\r")
    assert screen.process.wait().exit_code == 0
    assert place.files.read_text("text.txt") == "first line\n"


def test_less(at: Callable[..., Screen], place: Any, tools: Callable[..., str]) -> None:
    """A pager fills a screen, finds a word further down, and goes."""
    tools("less", "less")
    place.files.write("long.txt", "".join(f"line {number}\n" for number in range(1000)))
    screen = at("less", "long.txt")
    screen.shows("line 20")
    screen.types("/line 777\n")
    screen.shows("line 790")
    screen.types("q")
    assert screen.process.wait().exit_code == 0


def test_python(at: Callable[..., Screen]) -> None:
    """The interpreter at a terminal asks, answers, is interrupted, and ends at ^D."""
    screen = at("python3", "-I", "-q")
    screen.shows(">>> ")
    screen.types("6 * 7\n")
    screen.shows("42\r\n")
    screen.types("import time; print('be' + 'gun'); time.sleep(60)\n")
    screen.shows("begun\r\n")
    screen.types("\x03")
    screen.shows("KeyboardInterrupt")
    screen.shows(">>> ")
    screen.process.close_stdin()
    result = screen.process.wait()
    assert result.fault is None
    assert result.exit_code in {0, 130}  # Python 3.11 dies of an interrupt that it had survived
