"""Owned sandboxes as other processes of the same user see them, and how far a command line is believed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from isandbox import SandboxLostError, SandboxNotFoundError, UnsupportedError, sync
from isandbox._state.owner import current_process, name_process
from isandbox_backends._shared.bounds import ROOT_IDS
from isandbox_backends._shared.detached.processes import NamedHelper, first_processes, helper_of, open_helper, parse_arguments

from .conftest import Other, eventually, first_process

ID = "seccomp-" + "0" * 32
OWNER = "4026531836-17-12345"
pytestmark = pytest.mark.native


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["isandbox-helper", ID, OWNER], True),
        (["/usr/bin/python3", "-I", "main.py", "dir", ID, OWNER], True),
        (["isandbox-helper", ID, "detached"], True),
        (["isandbox-helper", ID], False),
        (["isandbox-helper", ID, "4026531836-17"], False),
        (["isandbox-helper", "../x", OWNER], False),
        (["isandbox-helper", ID, OWNER, "more"], False),
        ([], False),
    ],
)
def test_who_is_a_helper(words: list[str], known: bool) -> None:
    """A command line that ends with an id and an owner, and no other."""
    assert (parse_arguments("\0".join([*words, ""]).encode()) is not None) == known


def test_another_process_sees_an_owned_sandbox(backend: str, other: Other) -> None:
    """Listed with its owner while it lives, reached by nobody, and gone from the list when it is closed."""
    with sync.create_sandbox(backend) as sandbox:
        listed = "say([[s.id, s.state, s.detached, s.owner_pid, s.created_at.timestamp()] for s in sync.list_sandboxes()])"
        ours = [line for line in other(listed) if line[0] == sandbox.info.id]
        assert [line[:4] for line in ours] == [[sandbox.info.id, "running", False, os.getpid()]]
        assert abs(ours[0][4] - sandbox.info.created_at.timestamp()) < 60
        with pytest.raises(UnsupportedError, match="owned"):
            sync.connect(sandbox.info.id)
    assert sandbox.info.id not in {summary.id for summary in sync.list_sandboxes()}


def test_an_owned_sandbox_is_killed_from_another_process(backend: str, other: Other) -> None:
    """True when it lived; its owner finds it lost; afterwards nobody has heard of it."""
    sandbox = sync.create_sandbox(backend)
    try:
        assert other("say(sync.kill_sandbox(args[0]))", sandbox.info.id) is True
        with pytest.raises(SandboxLostError):
            sandbox.exec(["true"])
    finally:
        sandbox.close()
    with pytest.raises(SandboxNotFoundError):
        sync.kill_sandbox(sandbox.info.id)


def test_a_process_that_calls_itself_a_helper() -> None:
    """Listed and killed by its id where it names us as its owner; left alone where it names a process of another pid namespace."""
    alive = str(current_process())
    for owner, listed in ((alive, True), (f"1{alive}", False)):
        with subprocess.Popen([sys.executable, "-c", "input()", ID, owner], stdin=subprocess.PIPE) as pretender:
            try:
                assert eventually(lambda pid=pretender.pid: helper_of(pid))
                assert (ID in {summary.id for summary in sync.list_sandboxes("seccomp")}) == listed
                assert ID not in sync.reap().removed
                assert pretender.poll() is None
                if listed:
                    assert sync.kill_sandbox(ID) is True
                else:
                    with pytest.raises(SandboxNotFoundError):
                        sync.kill_sandbox(ID)
                    assert pretender.poll() is None
            finally:
                pretender.kill()


def test_a_launcher_beside_its_first_process() -> None:
    """Two children of ours under one id, as for a moment after a start: the list has it once, and its end is the end of both."""
    command = [sys.executable, "-c", "input()", ID, str(current_process())]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as one, subprocess.Popen(command, stdin=subprocess.PIPE) as two:
        try:
            assert eventually(lambda: helper_of(one.pid) and helper_of(two.pid))
            assert [summary.id for summary in sync.list_sandboxes("seccomp") if summary.id == ID] == [ID]
            assert sync.kill_sandbox(ID) is True
            assert (one.wait(timeout=60), two.wait(timeout=60)) == (-signal.SIGKILL, -signal.SIGKILL)
        finally:
            one.kill()
            two.kill()


def test_a_number_that_means_another_process() -> None:
    """A helper that was seen and is another process by now is not opened, whatever its number."""
    with sync.create_sandbox("seccomp") as sandbox:
        seen = first_process(sandbox.info.id)
        fd = open_helper(seen)
        assert fd is not None
        os.close(fd)
        stale = NamedHelper(seen.pid, seen.parent, seen.start + 1, seen.id, seen.owner)
        assert open_helper(stale) is None


def test_the_helper_of_a_dead_owner_is_ended(other: Other) -> None:
    """One that was stopped when its owner died, and so did not end by itself, goes with the next reap."""
    owner = other("s = sync.create_sandbox('seccomp')\nsay([s.info.id])\nimport time\ntime.sleep(60)", wait=False)
    try:
        (name,) = json.loads(owner.stdout.readline())
        os.kill(first_process(name).pid, signal.SIGSTOP)
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    sync.reap()  # or one of a test beside this: processes are everybody's to see
    assert eventually(lambda: name not in {found.id for found in first_processes()})
    assert name not in sync.reap().removed


KEEP = """
import signal, sys
with open("/proc/self/comm", "w") as file:
    file.write("isandbox-keeper")
signal.signal(signal.SIGCONT, lambda *_: sys.exit(7))
print(1, flush=True)
while True:
    signal.pause()
"""


def test_a_keeper_that_is_at_it_is_let_go_on() -> None:
    """Where a helper of `local` is killed its keepers end what commands have left, which nobody else would find: a reap that comes
    upon one in the middle of that does not end it.
    """
    with subprocess.Popen(["sleep", "100"]) as owner:
        command = [sys.executable, "-c", KEEP, ID, str(name_process(owner.pid))]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as keeper:
            try:
                assert keeper.stdout is not None
                keeper.stdout.readline()
                owner.kill()
                owner.wait()
                sync.reap()  # or one of a test beside this
                assert keeper.wait(timeout=60) == 7
            finally:
                owner.kill()
                keeper.kill()


PRETEND = "import os, sys; os.setgroups([]); os.setresuid(*map(int, sys.argv[1].split(','))); print(1, flush=True); input()"


@contextlib.contextmanager
def pretender(uids: str, owner: str) -> Iterator[subprocess.Popen[str]]:
    """A process with these ids, real, effective and saved, that calls itself the helper of ``ID``."""
    command = [sys.executable, "-c", PRETEND, uids, ID, owner]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n"
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can end what is another user's")
@pytest.mark.parametrize(
    ("uids", "ended"),
    [
        ("0,0,0", True),
        ("54321,54321,54321", False),
        ("54321,0,0", False),
        ("0,54321,0", False),
        (f"{ROOT_IDS.start},0,0", False),
    ],
)
def test_root_does_not_end_what_others_call_a_helper(uids: str, ended: bool) -> None:
    """A process of another user, or a set-user-id program that one has started, is left alone whatever it calls itself; one that
    has root's ids alone is taken for what it says.
    """
    with subprocess.Popen(["sleep", "100"]) as owner:
        try:
            name = name_process(owner.pid)
            with pretender(uids, str(name)) as process:  # its owner lives until it has these ids: until then it has root's
                owner.kill()
                owner.wait()
                removed = sync.reap().removed
                if ended:  # by this reap or by one of a test beside this: processes are everybody's to see
                    assert process.wait(timeout=60) == -signal.SIGKILL
                else:
                    assert ID not in removed
                    assert process.poll() is None
        finally:
            owner.kill()


STRANGER = """
import subprocess, sys
words = sys.stdin.readline().split()
with subprocess.Popen([sys.executable, "-c", "input()", *words], stdin=subprocess.PIPE) as stranger:
    print(stranger.pid, flush=True)
    sys.stdin.readline()
"""


def test_a_helper_is_its_owners_child() -> None:
    """A process that names us as its owner without being our child is not in our list, and is not ended by its id."""
    with subprocess.Popen(
        [sys.executable, "-c", STRANGER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as family:
        assert family.stdin is not None
        assert family.stdout is not None
        family.stdin.write(f"{ID} {current_process()}\n")
        family.stdin.flush()
        pid = int(family.stdout.readline())
        assert eventually(lambda: helper_of(pid))
        assert ID not in {summary.id for summary in sync.list_sandboxes("seccomp")}
        with pytest.raises(SandboxNotFoundError, match="you have no sandbox"):
            sync.kill_sandbox(ID)
        assert helper_of(pid) is not None
