"""What a reap removes, and what neither it nor a kill ever touches."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from isandbox import SandboxNotFoundError, sync
from isandbox._state.directory import StateDirectory
from isandbox._state.entry import Entry, Resources
from isandbox._state.owner import OwnerRecord, current_owner
from isandbox._state.register import Register
from isandbox.policy import Quotas
from isandbox_backends._shared.detached.processes import first_processes, helpers

from .conftest import LIFETIME, entered, eventually, leftovers, reaped, states

pytestmark = pytest.mark.native
ID = "seccomp-" + "2" * 32


def enter(state: Path, change: Callable[[Entry], Entry], **options: object) -> None:
    """A row in the register, as ``change`` makes it."""
    with StateDirectory.make(str(state)) as directory:
        register = Register(directory)
        register.begin(ID, **options)  # type: ignore[arg-type]
        with register._database.writing() as connection:
            entry = register._one(connection, "id", ID)
            assert entry is not None
            register._write(connection, change(entry))


def dead_here() -> OwnerRecord:
    """A process of this machine that has ended."""
    here = current_owner()
    with subprocess.Popen(["true"]) as process:
        pass
    return replace(here, process=replace(here.process, pid=process.pid, start=here.process.start))


def test_what_a_dead_maker_left(state: Path) -> None:
    """A row whose maker is dead goes with its directories; twice is nothing; the row is kept for whoever asks."""
    scratch = f"{tempfile.gettempdir()}/isandbox-{ID}"
    os.makedirs(f"{scratch}/home/deep")
    enter(state, lambda entry: entry, creator=dead_here(), resources=Resources((), (scratch,)))
    assert reaped(state) == [ID]
    assert not os.path.exists(scratch)
    assert reaped(state) == []
    assert entered(state) == [ID]
    assert sync.kill_sandbox(ID) is False


@pytest.mark.parametrize("others", [{"host": "f" * 16, "boot": "e" * 32}, {"host": "", "boot": ""}])
@pytest.mark.parametrize("word", ["starting", "running"])
def test_another_hosts_sandbox(state: Path, others: dict[str, str], word: str) -> None:
    """Two hosts that share a state directory leave each other's sandboxes alone: elsewhere, whatever the lock says."""
    owner = replace(dead_here(), **others)  # type: ignore[arg-type]
    scratch = f"{tempfile.gettempdir()}/isandbox-{ID}"
    os.mkdir(scratch)
    try:
        enter(
            state,
            lambda entry: replace(entry, state=word, helper=owner),  # type: ignore[arg-type]
            creator=owner,
            resources=Resources((), (scratch,)),
        )
        assert reaped(state) == []
        assert os.path.exists(scratch)
        for use in (sync.connect, sync.kill_sandbox):
            with pytest.raises(SandboxNotFoundError, match="another machine"):
                use(ID)
        assert states(state) == ([] if word == "starting" else ["elsewhere"])
    finally:
        os.rmdir(scratch)


def test_another_boot_of_this_host(state: Path) -> None:
    """What was before the machine went down has ended with it."""
    owner = replace(current_owner(), boot="d" * 32)
    enter(state, lambda entry: replace(entry, state="running", helper=owner), creator=owner)
    assert states(state) == ["ended"]
    assert reaped(state) == [ID]


def test_a_forged_row_removes_nothing_else(state: Path, tmp_path: Path) -> None:
    """Directories that do not have the sandbox's own name stay, whatever the register says; so does what a link leads to."""
    precious = tmp_path / ("isandbox-seccomp-" + "3" * 32)
    precious.mkdir()
    (precious / "file").touch()
    link = Path(tempfile.gettempdir()) / f"isandbox-{ID}"
    link.symlink_to(precious)
    try:
        resources = Resources((str(precious),), (str(precious), str(link)))
        enter(state, lambda entry: entry, creator=dead_here(), resources=resources)
        sync.reap()
        assert (precious / "file").exists()
        assert link.is_symlink()
    finally:
        link.unlink()


def test_a_pid_that_was_reused(state: Path) -> None:
    """The number of the first process means another process by now: it is neither killed nor taken for the sandbox's."""
    with sync.create_sandbox("seccomp", detached=True, lifetime=LIFETIME) as sandbox:
        time.sleep(0.03)  # start times are told in hundredths of a second: a number that comes again has another one
        with subprocess.Popen(["sleep", "100"]) as innocent:
            try:
                with StateDirectory.make(str(state)) as directory:
                    entry = Register(directory).get(sandbox.info.id)
                    assert entry is not None
                    assert entry.helper is not None
                    reused = replace(entry.helper, process=replace(entry.helper.process, pid=innocent.pid))
                    Register(directory).running(sandbox.info.id, helper=reused)
                assert sync.kill_sandbox(sandbox.info.id) is True
                assert innocent.poll() is None
            finally:
                innocent.kill()
        sandbox.detach()


def test_a_live_sandbox_stays(backend: str, state: Path) -> None:
    """A reap touches nothing of a sandbox that lives, of its own process or of others."""
    with sync.create_sandbox(backend, detached=True, lifetime=LIFETIME) as detached, sync.create_sandbox(backend) as owned:

        def entries() -> list[str]:  # no processes: a launcher may still be on its way out
            return sorted(entry for entry in leftovers(detached.info.id, state) if not entry.startswith("process"))

        before = entries()
        assert before
        assert reaped(state) == []
        assert entries() == before
        assert detached.exec(["true"]).ok
        with sync.connect(detached.info.id) as connected:
            assert connected.exec(["true"]).ok
        assert owned.exec(["true"]).ok


TWICE = """
names = []
input()
say(list(sync.reap().removed))
"""


def test_two_reaps_at_once(state: Path) -> None:
    """Each leftover is removed by one of them, and none fails."""
    made = [sync.create_sandbox("seccomp", detached=True, lifetime=LIFETIME) for _ in range(4)]
    for sandbox in made:
        sandbox.detach()
    names = {sandbox.info.id for sandbox in made}
    for helper in [found for found in helpers() if found.id in names]:
        with contextlib.suppress(ProcessLookupError):  # the end of one is the end of others
            os.kill(helper.pid, signal.SIGKILL)
    assert eventually(lambda: set(states(state)) == {"ended"})
    program = "import sys, json\nfrom isandbox import sync\ndef say(v): print(json.dumps(v))\n" + TWICE
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        answers.append(set(json.loads(out)))
    assert set.union(*answers) >= names
    assert not any(leftovers(name, state) for name in names)
    assert reaped(state) == []


def kill_at_once(id: str) -> None:
    """Kill the first process and its keepers, of which none gets to know of another's end: it would end the commands first."""
    first = {helper.pid for helper in first_processes() if helper.id == id}
    found = sorted((helper.pid for helper in helpers() if helper.id == id), key=lambda pid: pid in first)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups are made by root here")
def test_what_still_runs_in_the_group_of_an_ended_sandbox(state: Path) -> None:
    """Without a pid namespace commands outlive a helper that is killed; by the control group a reap finds and ends them."""
    options = {"quotas": Quotas(memory="64MiB"), "cgroup": "require"}
    sandbox = sync.create_sandbox("local", detached=True, lifetime=LIFETIME, **options)  # type: ignore[arg-type]
    with sync.create_sandbox("local", **options) as bystander:  # type: ignore[arg-type]
        theirs = bystander.start(["sleep", "100"])
        # Not the shell: a command's own process ends with its keeper.
        command = sandbox.start("sleep 100 & setsid sleep 100 & echo $!; wait")
        pid = int(next(chunk for _, chunk in command).split()[0])
        kill_at_once(sandbox.info.id)
        assert os.path.exists(f"/proc/{pid}")
        sandbox.detach()
        assert eventually(lambda: sandbox.info.id in reaped(state) or not leftovers(sandbox.info.id, state))
        assert eventually(lambda: not os.path.exists(f"/proc/{pid}"))
        assert leftovers(sandbox.info.id, state) == []
        assert bystander.exec(["true"]).ok
        theirs.kill()
        assert theirs.wait().fault == "cancelled"
