"""SIGKILL to owners, helpers and both, at random moments: nothing is left, and nothing alive is touched."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from isandbox import SandboxError, sync
from isandbox._state.owner import name_process
from isandbox_backends._shared.detached.processes import helpers

from .conftest import entered, eventually, leftovers, states

pytestmark = pytest.mark.native

OWNER = """
import os, sys
from isandbox import sync
from isandbox.policy import Quotas
with sync.create_sandbox(sys.argv[1]): pass
options = {"detached": True, "lifetime": 300} if sys.argv[2] == "detached" else {}
if os.geteuid() == 0:
    options |= {"cgroup": "require", "quotas": Quotas(memory="64MiB")}
print("ready", flush=True)
input()
s = sync.create_sandbox(sys.argv[1], **options)
s.files.write("file", "x")
nap = sys.argv[3]
s.exec(f"sleep {nap} & setsid sleep {nap} & mkdir -p a/b; sleep {nap}")
"""
ROUNDS = 200


def play(chance: random.Random, state: Path) -> None:
    """One round: who dies, and when; then what a later process finds."""
    backend, kind = chance.choice(["seccomp", "local"]), chance.choice(["owned", "detached"])
    victims = chance.choice(["owner", "helper", "both"])
    nap = f"1{chance.randrange(10**6):06}.{os.getpid()}"
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, backend, kind, nap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        owner.stdout.readline()
        process = name_process(owner.pid)
        before = set(entered(state))
        owner.stdin.write("\n")
        owner.stdin.flush()
        time.sleep(chance.uniform(0, 0.08))
        ours = [helper for helper in helpers() if helper.owner == process or helper.id in set(entered(state)) - before]
        if victims != "owner":
            for helper in ours:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(helper.pid, signal.SIGKILL)
        if victims != "helper":
            owner.kill()
        else:
            time.sleep(0.02)
            owner.kill()
        owner.wait()
    if backend == "local" and victims != "owner" and os.geteuid() != 0:
        for pid in sleepers(nap):  # without a control group it says of itself that what it started may live on
            os.kill(pid, signal.SIGKILL)
    names = set(entered(state)) - before
    for name in names:
        with contextlib.suppress(SandboxError):
            sync.kill_sandbox(name)
    assert eventually(lambda: sync.reap() is not None and "running" not in states(state)), (backend, kind, victims)
    assert eventually(lambda: sync.reap() is not None and not remains(str(process), names, state)), (
        *(backend, kind, victims),
        remains(str(process), names, state),
    )
    assert eventually(lambda: not sleepers(nap)), (backend, kind, victims)


def remains(owner: str, names: set[str], state: Path) -> list[str]:
    found = [line for name in names for line in leftovers(name, state)]
    found += [str(path) for path in (state / "sandboxes").glob("*")]
    found += [f"process {helper.pid}" for helper in helpers() if str(helper.owner) == owner]
    found += [name for name in os.listdir(tempfile.gettempdir()) if owner in name]
    for top, directories, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{top}/{name}" for name in directories if f"isandbox-{owner}-" in name]
    return found


def sleepers(nap: str) -> list[int]:
    """Commands of a round, found by how long they would sleep."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal() and Path(f"/proc/{name}/cmdline").read_bytes() == f"sleep\0{nap}\0".encode():
                found.append(int(name))
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_some_rounds(seed: int, state: Path) -> None:
    """A few rounds of the same, at each run of the tests."""
    play(random.Random(seed), state)  # noqa: S311 - the same each time


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_many_rounds(state: Path) -> None:
    """200 rounds, the same ones each time, beside a sandbox that lives through all of them."""
    chance = random.Random(20_261_201)  # noqa: S311 - the same each time
    with sync.create_sandbox("seccomp") as bystander:
        for _ in range(ROUNDS):
            play(chance, state)
            assert bystander.exec(["true"]).ok
