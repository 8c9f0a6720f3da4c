"""kill -9 at random moments of an owner, of its helper, of both. What is dead leaves nothing once `reap` has run; what lives
is not touched.

A round is made from its seed alone: which backend, owned or detached, who dies, when. The moments are the machine's own.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest

from isandbox import Quotas, SandboxError
from isandbox.sync import connect, create_sandbox, kill_sandbox, list_sandboxes, reap
from isandbox.testing.containment.host import cgroups_of

pytestmark = pytest.mark.native

Victim = Literal["owner", "first process", "any process", "owner and helper"]
_VICTIMS: tuple[Victim, ...] = ("owner", "first process", "any process", "owner and helper")
# An owner that has just been forked needs some ten milliseconds until its first sandbox is there.
_SOONEST, _LATEST = 0.001, 0.4
_SETTLE = 60.0


@dataclass(frozen=True)
class Round:
    seed: int
    backend: str
    detached: bool
    victim: Victim
    moment: float
    """Seconds after the owner has begun."""

    @classmethod
    def of(cls, seed: int) -> Round:
        dice = random.Random(seed)  # noqa: S311 - to be repeated, not to be unforeseeable
        return cls(
            seed=seed,
            backend=dice.choice(("seccomp", "seccomp", "local")),
            detached=dice.random() < 0.6,
            victim=dice.choice(_VICTIMS),
            moment=_SOONEST * (_LATEST / _SOONEST) ** dice.random(),
        )

    def options(self) -> dict[str, Any]:
        quotas: dict[str, Any] = {}
        if os.geteuid() == 0 and self.seed % 3 == 0:  # a control group
            quotas = {"quotas": Quotas(memory="256MiB")}
        return {"detached": True, "lifetime": 120, **quotas} if self.detached else quotas


class World:
    """The places of one round: a state directory and a temporary one of its own."""

    def __init__(self, path: Path) -> None:
        self.state, self.tmp = path / "state", path / "tmp"
        self.state.mkdir(parents=True, mode=0o700)
        self.tmp.mkdir(mode=0o711)
        self.made = path / "made"
        """There once the owner has the handle on its detached sandbox, which from then on outlives it."""
        self.seen: set[str] = set()
        """Ids of detached sandboxes."""

    def look(self) -> set[str]:
        with contextlib.suppress(FileNotFoundError):
            self.seen |= {name for name in os.listdir(self.state / "sandboxes") if name.count("-") == 1}
        return self.seen

    def helpers(self, owner: int) -> list[psutil.Process]:
        """First processes, keepers, launchers and doorkeepers: all have the command line of their helper."""
        found, ids = [], self.look()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                line = process.cmdline()
                if line[:1] != ["isandbox-helper"] or len(line) < 3 or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if line[2].split("-")[1:2] == [str(owner)] or line[1] in ids:
                    found.append(process)
        return found

    def left(self, owner: int, nap: Any) -> list[str]:
        """What is still there of a round, in words."""
        groups = {*cgroups_of({owner}), *_groups_named(self.seen)}
        return [
            *(f"process {process}" for process in (*self.helpers(owner), *nap.running())),
            *(f"state {path.name}" for path in (self.state / "sandboxes").glob("*")),
            *(f"scratch {path.name}" for path in self.tmp.iterdir()),
            *(f"control group {path}" for path in groups),
            *(f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.tmp) in line),
        ]


def _groups_named(ids: set[str]) -> set[str]:
    top = Path("/sys/fs/cgroup")
    return {str(path) for name in ids for path in top.glob(f"**/*{name}*")} if ids else set()


def live(chance: Round, world: World, nap: Any) -> None:
    """The owner: always busy with something, until it is killed."""
    while True:
        sandbox = create_sandbox(chance.backend, **chance.options())
        if chance.detached:
            world.made.touch()
        sandbox.files.write("data", b"x" * 100_000)
        sandbox.start(nap.argv)
        if chance.detached:
            sandbox.start(nap.argv, background=True)
        for _ in range(20):
            sandbox.exec("echo busy; cat data > copy")
        sandbox.exec(["setsid", "-f", *nap.argv])
        if not chance.detached:
            sandbox.close()
        else:
            time.sleep(60)


def strike(chance: Round, world: World, owner: int) -> None:
    time.sleep(chance.moment)
    dice = random.Random(~chance.seed)  # noqa: S311 - as above
    helpers = world.helpers(owner) if chance.victim != "owner" else []
    if chance.victim == "first process":
        helpers = [process for process in helpers if _name(process) == "isandbox-helper"]
    if chance.victim != "owner" and helpers:
        with contextlib.suppress(psutil.Error):
            dice.choice(helpers).kill()
    if chance.victim.startswith("owner"):
        os.kill(owner, signal.SIGKILL)


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:  # it has just ended
        return ""


def reaped_twice_at_once() -> None:
    failed: list[BaseException] = []

    def one() -> None:
        try:
            reap()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed, failed


def play(chance: Round, world: World, nap: Any) -> str:
    """One round; what became of its sandbox, for the statistics. Raises `AssertionError` for what is left."""
    owner = os.fork()
    if owner == 0:
        with contextlib.suppress(BaseException):
            live(chance, world, nap)
        os.kill(os.getpid(), signal.SIGSTOP)  # its sandbox was lost: it waits to be killed, holding what it holds
        os._exit(0)
    try:
        strike(chance, world, owner)
        fate = _judge_the_living(chance, world, owner)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(owner, signal.SIGKILL)
        os.waitpid(owner, 0)
    for name in world.look():
        with contextlib.suppress(SandboxError):
            kill_sandbox(name)
    until = time.monotonic() + _SETTLE
    reaped_twice_at_once()
    while (left := world.left(owner, nap)) and time.monotonic() < until:
        time.sleep(0.02)
        reaped_twice_at_once()
    assert not left, (chance, fate, left)
    assert [entry for entry in list_sandboxes(chance.backend) if entry.id in world.seen and entry.state == "running"] == []
    return fate


def _judge_the_living(chance: Round, world: World, owner: int) -> str:
    """After the owner's death alone a sandbox that it had a handle on goes on, and `reap` leaves it alone."""
    if chance.victim != "owner" or not chance.detached:
        return "dead"
    os.waitid(os.P_PID, owner, os.WEXITED | os.WNOWAIT)
    reap()
    for entry in list_sandboxes(chance.backend):
        if entry.detached and entry.state == "running":
            try:
                with connect(entry.id) as sandbox:
                    assert sandbox.exec("echo alive").stdout == "alive\n"
            except SandboxError:
                # Entered, but not yet released by its maker: it ends with that one, a moment later than the list was made.
                if world.made.exists():
                    raise
                continue
            return "alive"
    assert not world.made.exists(), "it was made, and has ended with its owner"
    return "never registered"


@pytest.fixture
def witnesses() -> Iterator[list[Any]]:
    """Sandboxes that nobody kills; they must not notice anything."""
    made = [create_sandbox("seccomp"), create_sandbox("local"), create_sandbox("seccomp", detached=True, lifetime=3600)]
    processes = [sandbox.start("while :; do sleep 0.1; done") for sandbox in made]
    yield made
    for sandbox, process in zip(made, processes, strict=True):
        assert sandbox.exec("echo witness").stdout == "witness\n"
        process.signal(signal.SIGTERM)
        assert process.wait().signal == signal.SIGTERM, "its command was ended by somebody else"
        sandbox.close()


def rounds(seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nap: Any) -> Counter[str]:
    fates: Counter[str] = Counter()
    for seed in seeds:
        world = World(tmp_path / str(seed))
        monkeypatch.setenv("ISANDBOX_STATE_DIR", str(world.state))
        monkeypatch.setattr(tempfile, "tempdir", str(world.tmp))
        chance = Round.of(seed)
        fates[f"{'detached' if chance.detached else 'owned'}, {chance.victim}: {play(chance, world, nap)}"] += 1
    return fates


def test_nothing_is_left_of_the_dead(witnesses: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nap: Any) -> None:
    """Twelve rounds of chaos leave no process, mount, control group, directory or entry, and the living are not touched."""
    assert sum(rounds(range(12), tmp_path, monkeypatch, nap).values()) == 12
    assert len(witnesses) == 3


@pytest.mark.full
@pytest.mark.timeout(900)
def test_two_hundred_rounds(witnesses: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nap: Any) -> None:
    """The same two hundred times, and every fate is among them: sandboxes that lived on, died, and were never registered."""
    fates = rounds(range(1000, 1200), tmp_path, monkeypatch, nap)
    print("\n".join(f"{count:4} {fate}" for fate, count in sorted(fates.items())))
    assert sum(fates.values()) == 200
    assert {fate.rpartition(": ")[2] for fate in fates} == {"alive", "dead", "never registered"}
    assert len(witnesses) == 3
