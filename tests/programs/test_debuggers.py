"""What the debug profile is for: debuggers, tracers and sanitisers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isandbox.sync import create_sandbox

pytestmark = pytest.mark.native

Worked = Callable[[Any], str]

LEAK = """
#include <stdlib.h>
static int deep (int n) { return n ? deep (n - 1) + 1 : 40; }
int main (void)
{
  char *lost = malloc (123);
  lost[0] = (char) deep (2);
  lost = 0;
  return 0;
}
"""


@pytest.fixture(scope="module")
def debug(sandbox_tmp: Path, tools: Callable[..., str]) -> Iterator[Any]:
    """A debug sandbox with a compiled program that leaks."""
    tools("gcc", "gcc libc6-dev", cheap=True)
    with create_sandbox("seccomp", profile="debug") as sandbox:
        sandbox.files.write("leak.c", LEAK)
        yield sandbox


def test_strace_follows_a_program(debug: Any, worked: Worked, tools: Callable[..., str]) -> None:
    """strace -f shows the calls of a shell and its child, with their strings; strace -p attaches to a process that runs."""
    tools("strace", "strace", cheap=True)
    worked(debug.exec("strace -f -o trace -e trace=openat,execve,exit_group sh -c 'cat /etc/hostname; exit 0'"))
    trace = debug.files.read_text("trace")
    assert 'execve("/usr/bin/cat", ["cat", "/etc/hostname"]' in trace.replace("/bin/cat", "/usr/bin/cat").replace(
        "/usr/usr", "/usr"
    )
    assert '"/etc/hostname", O_RDONLY' in trace
    assert trace.count("+++ exited with 0 +++") == 2
    attach = "(while [ ! -e done ]; do sleep 0.05; done) & timeout 20 strace -o attached -p $! & sleep 0.5; touch done; wait"
    worked(debug.exec(attach, timeout=30))
    assert "exited with 0" in debug.files.read_text("attached")


def test_the_leak_sanitiser_reports(debug: Any, worked: Worked) -> None:
    """A program with the address and leak sanitisers ends with a report of what it lost."""
    worked(debug.exec("gcc -g -fsanitize=address -o checked leak.c"))
    result = debug.exec("./checked")
    assert (result.exit_code, result.fault) == (1, None)
    assert "LeakSanitizer: detected memory leaks" in result.stderr
    assert "123 byte(s) leaked in 1 allocation(s)" in result.stderr


@pytest.mark.full
def test_gdb(debug: Any, worked: Worked, tools: Callable[..., str]) -> None:
    """gdb stops at a breakpoint, prints the stack, changes a variable, and attaches to a process that runs."""
    tools("gdb", "gdb")
    worked(debug.exec("gcc -g -O0 -o plain leak.c"))
    commands = ["break deep if n == 0", "run", "backtrace", "set variable n = 1", "print n", "disable", "continue"]
    session = [word for command in commands for word in ("-ex", command)]
    output = worked(debug.exec(["gdb", "-nx", "-batch", *session, "./plain"]))
    assert "#0  deep (n=0)" in output
    assert "#3  " in output
    assert "$1 = 1" in output
    assert "exited normally" in output
    attach = "sleep 30 & gdb -nx -batch -p $! -ex 'info registers rip' -ex 'call (int) getpid()' -ex detach; kill $!"
    assert "$1 = " in worked(debug.exec(attach))
