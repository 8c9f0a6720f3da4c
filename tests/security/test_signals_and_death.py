"""Attacks with signals, and what dies with whom."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from isandbox import SandboxError
from isandbox.sync import create_sandbox
from isandbox_backends._shared.plan import Bind, Directory, File, IdMaps, Record, Seccomp, Symlink

pytestmark = pytest.mark.native

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGSEGV, signal.SIGABRT,
           signal.SIGCHLD, signal.SIGKILL, signal.SIGUSR1)  # fmt: skip


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_process_does_not_mind_signals(box: Any, number: int) -> None:
    """No signal from inside ends or stops the sandbox's first process."""
    result = box.exec(f"kill -{int(number)} 1; sleep 0.05; echo here")
    assert result.stdout == "here\n"
    assert box.exec("echo usable").stdout == "usable\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGQUIT, signal.SIGSEGV])
def test_a_command_that_attacks_its_keeper(box: Any, number: int) -> None:
    """A command that signals its parent is refused, or reported as killed; its own end is told and the sandbox goes on."""
    result = box.exec(f"kill -{int(number)} $PPID; exec sleep 0.2", timeout=20)
    if box.info.layers["split_uid"].startswith("enforced"):
        assert "not permitted" in result.stderr
        assert result.exit_code == 0
    else:
        assert result.fault in (None, "killed")
    assert box.exec("echo usable").stdout == "usable\n"


def test_what_a_murdered_keeper_leaves_is_ended(box: Any) -> None:
    """Processes that fork as fast as they can do not outlive their command by killing its keeper."""
    runner = """
import os, signal, time
if os.fork():
    time.sleep(0.3)
    try:
        os.kill(os.getppid(), signal.SIGKILL)
    except PermissionError:
        os._exit(7)
    time.sleep(20)
for _ in range(2):
    os.fork()
end = time.monotonic() + 20
while time.monotonic() < end:
    try:
        if os.fork():
            os._exit(0)
        os.setsid()
    except OSError:
        pass
"""
    result = box.exec(["python3", "-c", runner], timeout=20)
    if result.exit_code == 7:
        assert box.info.layers["split_uid"].startswith("enforced")
        assert result.lingering
        return
    assert result.fault == "killed"
    assert len(box.exec("ls -d /proc/[0-9]*").stdout.split()) <= 4


def test_signalling_everybody_reaches_nobody_outside(box: Any) -> None:
    """kill (-1) ends commands of this sandbox at most; the host, its children and other sandboxes live."""
    peer = subprocess.Popen(["sleep", "60"])
    with create_sandbox("seccomp") as other:
        victim = other.start("read -r line; echo $line")
        box.exec("kill -9 -1", timeout=20)
        victim.write_stdin(b"alive\n")
        assert victim.wait().stdout == "alive\n"
    assert peer.poll() is None
    peer.kill()
    peer.wait(10)
    with contextlib.suppress(SandboxError):
        assert box.exec("echo usable").stdout == "usable\n"


def test_a_process_id_of_the_host_means_nothing(box: Any, probes: Any) -> None:
    """Numbers of host processes name nobody inside, for any way of sending a signal."""
    body = """
for pid in PIDS:
    out[str(pid)] = [attempt(os.kill, pid, 0), attempt(os.pidfd_open, pid), call(200 if os.uname().machine == "x86_64" else 130, pid, 0)]
out["control"] = attempt(os.kill, os.getpid(), 0)
"""
    pids = [pid for pid in (os.getpid(), os.getppid(), box._core.client.pid) if pid > 20]
    found = probes.run(box, body, PIDS=pids)
    assert found.pop("control") == "ok"
    assert {word for words in found.values() for word in words} == {"ESRCH"}


HOST = """
import os, sys, time
from isandbox.sync import create_sandbox
boxes = [create_sandbox("seccomp") for _ in range(2)]
handles = [box.start("trap '' TERM HUP; setsid sleep 120 & exec sleep 120", max_output=10) for box in boxes]
time.sleep(0.3)
if sys.argv[1] == "fork" and os.fork() == 0:
    time.sleep(60)
    os._exit(0)
print(*[box._core.client.pid for box in boxes], flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("forked", ["alone", "fork"])
def test_a_host_that_is_killed_takes_everything_with_it(forked: str, sandbox_tmp: Path) -> None:
    """After SIGKILL of the host nothing of its sandboxes runs on, also while a forked child of the host lives."""
    env = {**os.environ, "TMPDIR": str(sandbox_tmp)}
    with subprocess.Popen([sys.executable, "-c", HOST, forked], stdout=subprocess.PIPE, text=True, env=env) as host:
        assert host.stdout is not None
        helpers = [int(word) for word in host.stdout.readline().split()]
        assert len(helpers) == 2
        tree = psutil.Process(host.pid).children(recursive=True)
        inside = [process for pid in helpers for process in psutil.Process(pid).children(recursive=True)]
        assert len(inside) >= 6
        host.kill()
        gone, alive = psutil.wait_procs(inside, timeout=10)
        forks = [process for process in tree if process.is_running() and process not in inside and process.pid not in helpers]
        for process in forks:
            process.kill()
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    assert len(gone) + len(alive) == len(inside)
    assert bool(forks) == (forked == "fork")
    for place in sandbox_tmp.glob("isandbox-*"):
        if place.stat().st_uid != os.geteuid() or place.is_dir():
            subprocess.run(["rm", "-rf", str(place)], check=True, timeout=30)  # a killed host cannot remove its directories


def spoiled(name: str, plan: list[Record]) -> list[Record]:
    extra: dict[str, list[Record]] = {
        "mount source": [Directory("x"), Bind("/nowhere/at/all", "x")],
        "mount point": [Bind("/usr", "missing/point")],
        "link as mount point": [Symlink("/etc", "lnk"), Bind("/usr", "lnk")],
        "twice": [File("one"), File("one")],
    }
    instead: dict[str, Record] = {"ids": IdMaps("0 4294967295 1", "0 4294967295 1"), "filter": Seccomp(b"\xff" * 64)}
    if name == "no filter":
        return [record for record in plan if not isinstance(record, Seccomp)]
    if name in instead:
        return [instead[name] if isinstance(record, type(instead[name])) else record for record in plan]
    return [*plan[:6], *extra[name], *plan[6:]]


@pytest.mark.parametrize("name", ["mount source", "mount point", "link as mount point", "twice", "ids", "filter", "no filter"])
def test_a_start_that_fails_leaves_nothing(make: Any, sandbox_tmp: Path, name: str) -> None:
    """A plan that cannot be carried out to its last record starts no command and leaves no process, directory or descriptor."""
    before = (set(os.listdir("/proc/self/fd")), {p.pid for p in psutil.Process().children(recursive=True)})
    with pytest.raises(SandboxError):
        make(edit=lambda plan: spoiled(name, plan))
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        after = (set(os.listdir("/proc/self/fd")), {p.pid for p in psutil.Process().children(recursive=True)})
        if after[1] <= before[1]:
            break
        time.sleep(0.05)
    assert after[1] <= before[1]
    assert len(after[0]) <= len(before[0])
    assert not list(sandbox_tmp.glob("isandbox-*"))
    assert make().exec("echo fine").stdout == "fine\n"
