"""What a command with a terminal, or one that is kept, can reach by that: its own streams, and nothing of the helper's."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from isandbox import TerminalSize

pytestmark = pytest.mark.native

# Who can open the helper's own end of a terminal could type into it.
REACH = r"""
import errno, fcntl, json, os, sys, termios
def attempt(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"
out = {"descriptors": {}, "helper": {}}
for name in os.listdir("/proc/self/fd"):
    try:
        out["descriptors"][name] = os.readlink("/proc/self/fd/" + name)
    except OSError:  # of the listing itself
        continue
for pid in (entry for entry in os.listdir("/proc") if entry.isdigit() and int(entry) < os.getpid()):
    out["helper"][pid] = attempt(os.listdir, "/proc/%s/fd" % pid)
for name, number in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCCONS", 0x541D)):
    out[name] = attempt(fcntl.ioctl, 0, number, b"x")
out["size"] = attempt(fcntl.ioctl, 0, termios.TIOCGWINSZ, b"        ")
out["own"] = os.stat(0).st_uid == os.getuid()
out["anew"] = attempt(lambda: os.close(os.open(os.ttyname(0), os.O_RDWR | os.O_NOCTTY)))
print(json.dumps(out))
"""


def told(result: Any) -> Any:
    assert result.exit_code == 0, (result.stdout, result.stderr)
    return json.loads(result.stdout)


@pytest.mark.parametrize("profile", ["default", "strict", "debug"])
def test_a_command_has_its_terminal_and_no_more(make: Callable[..., Any], profile: str) -> None:
    """Its three streams are its own terminal, which it may open anew; no other descriptor is there, the helper's cannot be
    looked at, and nothing can be typed into it but from outside.
    """
    out = told(make(profile=profile).start(["python3", "-I", "-c", REACH], terminal=TerminalSize()).wait())
    places = {name: place for name, place in out["descriptors"].items() if not place.startswith("/proc/")}
    assert places == dict.fromkeys("012", "/dev/pts/0")
    assert out["helper"]
    assert set(out["helper"].values()) <= {"EACCES", "EPERM"}
    assert {name: out[name] for name in ("size", "own", "anew")} == {"size": "ok", "own": True, "anew": "ok"}
    assert {out[name] for name in ("TIOCSTI", "TIOCLINUX", "TIOCCONS")} == {"ENOTTY" if profile == "strict" else "EPERM"}


@pytest.mark.parametrize("terminal", [None, TerminalSize()], ids=["pipes", "terminal"])
def test_a_kept_command_can_open_its_streams_anew(make: Callable[..., Any], terminal: TerminalSize | None) -> None:
    """What the helper makes for a command belongs to the command's user: /dev/stdout and /dev/stderr open by their names."""
    script = "echo one > /dev/stdout; echo two > /dev/stderr; ls -L /dev/stdin > /dev/null && echo three"
    result = make().start(script, background=True, terminal=terminal).wait()
    assert sorted((result.stdout + result.stderr).split()) == ["one", "three", "two"], result


def test_terminals_are_apart(make: Callable[..., Any]) -> None:
    """A command cannot open the terminal of another sandbox, and one sandbox's terminals are numbered from 0 on."""
    first, second = make(), make()
    with (
        first.start("tty; read x", terminal=TerminalSize()) as one,
        second.start("tty; read x", terminal=TerminalSize()) as two,
    ):
        for process in (one, two):
            said, output = b"", iter(process)
            while not said.endswith(b"\n"):  # a terminal's driver writes the end of a line for itself
                said += next(output)[1]
            assert said == b"/dev/pts/0\r\n"
        seen = second.exec("ls /dev/pts").stdout.split()
    assert seen == ["0", "ptmx"]


def test_a_report_cannot_be_forged(make: Callable[..., Any]) -> None:
    """Whatever a kept command writes to its descriptors is output: its end is told by nobody but its keeper."""
    script = r"printf '\110\0\0\0\5\0\0\0' | tee /proc/self/fd/1 >&2; for fd in 3 4 5 6 7 8 9; do printf x >&$fd; done 2>/dev/null; exit 3"
    sandbox = make()
    process = sandbox.start(["bash", "-c", script], background=True)
    result = process.wait()
    assert (result.exit_code, result.fault, result.start_error) == (3, None, None)
    assert sandbox.attach(process.id).wait().exit_code == 3


def test_input_that_nobody_reads_stops_nobody(make: Callable[..., Any]) -> None:
    """A client that fills the input of a command that does not read holds up neither other commands nor the end of this one."""
    sandbox = make()
    process = sandbox.start(["sleep", "100"], background=True)
    with pytest.raises(BlockingIOError):
        _fill(process)
    assert sandbox.exec("echo x").stdout == "x\n"
    process.kill()
    assert process.wait().fault == "cancelled"


def _fill(process: Any) -> None:
    """Until nothing more fits for a while."""
    end = time.monotonic() + 30
    idle = 0
    while time.monotonic() < end:
        try:
            os.write(process._ends.stdin, b"x" * 65536)
            idle = 0
        except BlockingIOError:
            idle += 1
            if idle > 20:
                raise
            time.sleep(0.01)


def test_a_command_that_takes_its_own_output_back(make: Callable[..., Any]) -> None:
    """A kept command that opens the reading end of its own output may stop itself, and stops nobody else."""
    sandbox = make()
    process = sandbox.start(["bash", "-c", "exec 5< /proc/self/fd/1; while :; do echo x; read x <&5; done"], background=True)
    for number in range(20):
        assert sandbox.exec(f"echo {number}").stdout == f"{number}\n"
        assert len(sandbox.processes()) == 1
    process.kill()
    assert process.wait().fault == "cancelled"
