"""Each sandbox has ids that no other one has: what that stops, and that it holds for as long as the sandbox lives."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isandbox import Quotas, Workspace
from isandbox.sync import create_sandbox
from isandbox_backends._shared.plan import IdMaps, IdUse, Record
from isandbox_backends.seccomp import identity
from isandbox_backends.seccomp.claims import Claim, claim
from isandbox_backends.seccomp.subordinate import Grant, find_grant

ROOT = os.geteuid() == 0
pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(not ROOT and not isinstance(find_grant(), Grant), reason="this user has one id: see /etc/subuid"),
]
needs_root = pytest.mark.skipif(not ROOT, reason="only root can take the place of a command that has got out")


def ids_of(pid: int) -> set[int]:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {int(number) for name in ("Uid", "Gid") for number in lines[name].split()}


def command_of(box: Any) -> int:
    """The pid on the host of the one command that runs there."""
    keeper = children(box._core.client.pid)
    return children(keeper[0])[0]


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch, sandbox_tmp: Path) -> Iterator[Callable[..., Any]]:
    """``two(met=)``: two sandboxes with a command each, which sleeps. ``met``: with the lock off and the same choice for both."""
    with ExitStack() as stack:

        def both(*, met: bool = False, **options: Any) -> Any:
            with monkeypatch.context() as patch:
                if met:
                    patch.setattr(identity, "claim", lambda _, ranges, *__: Claim(ranges[len(ranges) // 3], why="mutant"))
                boxes = [stack.enter_context(create_sandbox("seccomp", **options)) for _ in range(2)]
            for box in boxes:
                box.start(["sleep", "60"])
            return boxes

        yield both


def test_two_sandboxes_share_no_id(two: Callable[..., Any]) -> None:
    """Helper and command of one sandbox, and those of another: four ids; where the lock is off and chance has it so, they meet."""
    for met in (False, True):
        boxes = two(met=met)
        seen = [(ids_of(box._core.client.pid), ids_of(command_of(box))) for box in boxes]
        assert all(helper.isdisjoint(command) and os.geteuid() not in helper | command for helper, command in seen)
        first, second = ({*helper, *command} for helper, command in seen)
        assert bool(first & second) == met
        told = boxes[0].info.layers["distinct_ids"]
        assert told == ("absent (chosen by chance: mutant)" if met else "enforced")


def as_ids(uid: int, action: Callable[[], object]) -> str:
    """What comes of it in a process outside that has these ids and nothing else."""
    answer, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            action()
            os.write(into, b"ok")
        except OSError as error:
            os.write(into, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(answer, "rb") as file:
        said = file.read().decode()
    os.waitpid(child, 0)
    return said


@needs_root
@pytest.mark.parametrize("met", [False, True])
def test_a_command_that_has_got_out(two: Callable[..., Any], met: bool) -> None:
    """With the ids of one sandbox's commands a process outside reaches that sandbox's commands, and no other's; where ranges
    have met, the other's too.
    """
    own, other = two(met=met)
    uid = min(ids_of(command_of(own)))
    targets = {"own": command_of(own), "own helper": own._core.client.pid, "other": command_of(other)}
    found = {name: as_ids(uid, lambda pid=pid: os.kill(pid, 0)) for name, pid in targets.items()}
    assert found == {"own": "ok", "own helper": "PermissionError", "other": "ok" if met else "PermissionError"}


HOST = """
import sys
from isandbox.sync import create_sandbox
box = create_sandbox("seccomp")
process = box.start(["sleep", "60"])
pid = box._core.client.pid
print(pid, flush=True)
sys.stdin.read()
"""


def locks(first: int) -> bool:
    """Whether somebody has the ids from ``first`` on."""
    directory = "/run/isandbox" if ROOT else str(Path(find_grant().home, identity._USER_DIRECTORY))  # type: ignore[union-attr]
    mine = claim(directory, range(first, first + 2, 2))
    mine.close()
    return mine.why == "many are in use"


def soon_free(first: int) -> bool:
    end = time.monotonic() + 30
    while locks(first):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def first_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/uid_map").read_text().split()[1])


def test_the_sandbox_itself_holds_its_ids(two: Callable[..., Any]) -> None:
    """They are locked while it lives though the host has let go of the lock, and free once it is closed."""
    box, other = two()
    first = first_of(box._core.client.pid)
    assert locks(first)
    assert "isandbox/ids" not in {os.path.realpath(f"/proc/self/fd/{fd}")[-12:] for fd in os.listdir("/proc/self/fd")}
    box.close()
    assert soon_free(first)
    assert locks(first_of(other._core.client.pid))


def test_a_killed_host_frees_the_ids(sandbox_tmp: Path) -> None:
    """The kernel does it: there is nobody left who could."""
    command = [sys.executable, "-c", HOST]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=sandbox_tmp) as host:
        try:
            assert host.stdout is not None
            first = first_of(int(host.stdout.readline()))
            assert locks(first)
        finally:
            host.kill()
    assert soon_free(first)


@needs_root
def test_nobody_but_the_first_process_has_the_lock(two: Callable[..., Any]) -> None:
    """Keepers and commands do not have its descriptor; the first process does."""
    box, _ = two()
    first = box._core.client.pid

    def has(pid: int) -> bool:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") == "/run/isandbox/ids" for fd in os.listdir(f"/proc/{pid}/fd"))

    assert (has(first), has(children(first)[0]), has(command_of(box))) == (True, False, False)


def test_a_name_of_another_sandboxs_files_is_nothing(two: Callable[..., Any], tmp_path: Path) -> None:
    """What one sandbox has in scratch space or in its workspace another one does not find, by any name it may know; its own it
    does. Processes neither.
    """
    own, other = two()
    assert own.exec("echo canary > /tmp/canary; echo canary > /workspace/canary").ok
    given = create_sandbox("seccomp", workspace=Workspace(str(tmp_path)))
    with given:
        assert given.exec("echo canary > canary").ok
        pid = command_of(own)
        look = f"cat /tmp/canary /workspace/canary {tmp_path}/canary /proc/{pid}/root/tmp/canary /proc/*/root/tmp/canary; kill -0 {pid}"
        assert "canary\n" not in other.exec(look).stdout
        assert other.exec("ls -d /proc/[0-9]* | wc -l").stdout.strip() in {"5", "6", "7"}
        assert own.exec(look).stdout == "canary\n" * own.exec(
            "ls /tmp/canary /workspace/canary /proc/*/root/tmp/canary"
        ).stdout.count("canary")


PIPES = """
import fcntl, os, time
held = []
try:
    while len(held) < 4000:
        held.extend(os.pipe())
except OSError:
    pass
print(fcntl.fcntl(held[-1], 1032), flush=True)
time.sleep(60)
"""
ONE_PIPE = ["python3", "-c", "import fcntl, os; print(fcntl.fcntl(os.pipe()[0], 1032))"]


@pytest.mark.parametrize("met", [False, True])
def test_pipes_of_one_sandbox_are_not_anothers(two: Callable[..., Any], met: bool) -> None:
    """The kernel makes pipes small for a user who has many (fs.pipe-user-pages-soft): for commands of that sandbox, and for
    others only where ids have met.
    """
    own, other = two(met=met, quotas=Quotas(open_files=5000))
    greedy = own.start(["python3", "-c", PIPES])
    assert int(next(iter(greedy))[1]) < 65_536
    assert int(own.exec(ONE_PIPE).stdout) < 65_536
    assert (int(other.exec(ONE_PIPE).stdout) == 65_536) is not met
    assert os.sysconf("SC_PAGESIZE") == 4096
    greedy.kill()


QUEUE = """
import ctypes, signal, time
libc = ctypes.CDLL(None)
signal.pthread_sigmask(signal.SIG_BLOCK, {40})
count = 0
while count < 500 and libc.sigqueue(libc.getpid(), 40, ctypes.c_void_p(0)) == 0:
    count += 1
print(count, flush=True)
time.sleep(60)
"""


def without_owner(plan: list[Record]) -> list[Record]:
    return [
        replace(record, use=record.use & ~IdUse.OWNER) if isinstance(record, IdMaps) else record for record in plan
    ]  # fmt: skip


def queued() -> int:
    """Signals that the kernel counts for this user, here."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["SigQ"].split("/")[0])


@needs_root
@pytest.mark.parametrize("owned", [True, False])
def test_signals_queued_inside_are_not_counted_for_root(make: Any, owned: bool) -> None:
    """What a sandbox queues counts for the owner of its namespace as well; that is one of its own ids, and without it root."""
    box = make(edit=None if owned else without_owner)
    before = queued()
    attacker = box.start(["python3", "-c", QUEUE])
    assert int(next(iter(attacker))[1]) == 500
    assert (queued() - before >= 500) is not owned
    attacker.kill()
    assert resource.getrlimit(resource.RLIMIT_SIGPENDING)[0] > 500


def test_the_keeper_is_out_of_reach(two: Callable[..., Any]) -> None:
    """A command cannot signal its keeper; where a user's sandbox has one id, it can, and the murder is told."""
    own, _ = two()
    for number in (signal.SIGKILL, signal.SIGSTOP):
        result = own.exec(f"kill -{int(number)} $PPID; echo $?")
        assert (result.stdout, result.fault) == ("1\n", None)
    if not ROOT:
        with create_sandbox("seccomp", ids="single") as single:
            assert single.exec("kill -9 $PPID; sleep 20").fault == "killed"


GROUPS = ["python3", "-c", "import os; print(os.getgroups())"]
HOST_IN_A_GROUP = """
import os
from isandbox import Workspace
from isandbox.sync import create_sandbox
if os.geteuid() == 0:
    os.setgroups([54399])
print(sorted(set(os.getgroups()) - {os.getegid()}))
for options in [{}, {"ids": "single"}][: 1 if os.geteuid() == 0 else 2]:
    with create_sandbox("seccomp", workspace=Workspace(WORKSPACE), **options) as box:
        print(box.exec(GROUPS).stdout.strip())
        print(box.exec("cat secret").stdout.strip() or "closed")
"""


def test_groups_of_the_caller_are_dropped(tmp_path: Path) -> None:
    """Commands are in no group of the caller's, and what such a group may read is closed to them; with a single id they are."""
    secret = tmp_path / "secret"
    secret.write_text("open")
    secret.chmod(0o040)
    tmp_path.chmod(0o755)
    if ROOT:  # only root can give a file to somebody else
        os.chown(secret, 12345, 54399)
    host = f"GROUPS, WORKSPACE = {GROUPS!r}, {str(tmp_path)!r}\n{HOST_IN_A_GROUP}"
    done = subprocess.run([sys.executable, "-c", host], check=True, capture_output=True, text=True, timeout=60)
    groups, inside, read, *single = done.stdout.splitlines()
    secret.chmod(0o600)
    if groups == "[]":
        pytest.skip("this user is in no further group")
    assert (inside, read) == ("[]", "closed")
    if not ROOT:
        assert single[0] == "[1000, 65534]"
