"""The register: one row for each detached sandbox, and one sandbox for each key."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from isandbox import ConfigurationError, StateError
from isandbox._state.clock import Moment
from isandbox._state.directory import StateDirectory
from isandbox._state.entry import Resources
from isandbox._state.owner import OwnerRecord, ProcessName, current_owner
from isandbox._state.register import Register, make_key

NewId = Callable[[], str]
DAY = 86_400.0
KEY = make_key("once", b"options")


class Clock:
    def __init__(self) -> None:
        self.moment = Moment(1_700_000_000.0, current_owner().boot, 1000.0)

    def now(self) -> Moment:
        return self.moment

    def pass_by(self, seconds: float, *, wall: float = 0.0) -> None:
        """``wall``: by how much the wall clock jumps beside."""
        at = self.moment
        self.moment = replace(at, wall=max(0.0, at.wall + seconds + wall), up=at.up + seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def register(state: StateDirectory, clock: Clock) -> Register:
    return Register(state, clock)


def dead(**changes: str) -> OwnerRecord:
    """A process that never was, on this machine unless changed."""
    here = current_owner()
    return replace(here, process=ProcessName(here.process.namespace, 2**31 - 1, 1), **changes)


def test_its_life(register: Register, new_id: NewId, clock: Clock) -> None:
    """Starting, running, renewed, ended: each says what it was given before, and who made it."""
    name, helper = new_id(), dead()
    begun = register.begin(
        name, lifetime=60, idle_timeout=5, labels={"a": "b"}, resources=Resources(scratch=("/tmp/isandbox-x",))
    )
    assert (begun.id, begun.backend, begun.state, begun.creator) == (name, "seccomp", "starting", current_owner())
    assert register.get(name) == begun
    running = register.running(name, helper=helper)
    assert running == replace(begun, state="running", helper=helper) == register.get(name)
    clock.pass_by(40)
    renewed = register.renewed(name, 100)
    assert renewed is not None
    assert (renewed.lifetime, renewed.expires_at(clock.now())) == (140, clock.now().wall + 100)
    assert register.ended(name)
    assert not register.ended(name)
    assert register.get(name) == replace(renewed, state="ended", ended=clock.now())
    assert register.renewed(name, 100) is None


def test_what_was_never_begun(register: Register, new_id: NewId) -> None:
    """Nothing is known of it; only running it is an error, since a started sandbox would be lost to everybody."""
    name = new_id()
    assert register.get(name) is None
    assert not register.ended(name)
    assert register.renewed(name, 5) is None
    assert not register.discard(name)
    assert register.find(KEY) is None
    assert register.list() == register.list()
    assert register.list().entries == ()
    with pytest.raises(StateError, match="not begun"):
        register.running(name)


def test_one_that_has_ended_does_not_run(register: Register, new_id: NewId) -> None:
    """It may have been killed between its start and its first word."""
    name = register.begin(new_id()).id
    register.ended(name)
    with pytest.raises(StateError, match="was ended before it ran"):
        register.running(name)


def test_what_cannot_be_registered(register: Register, new_id: NewId) -> None:
    """Neither a name that is no id, nor one that is taken, nor values that could not be read again."""
    name = new_id()
    register.begin(name)
    with pytest.raises(StateError, match="there is a sandbox"):
        register.begin(name)
    with pytest.raises(StateError, match="is no id"):
        register.begin("../../etc/passwd")
    for wrong in ({"lifetime": float("inf")}, {"labels": {"a": "\ud800"}}, {"resources": Resources(scratch=("/home",))}):
        with pytest.raises(ConfigurationError, match="cannot be registered"):
            register.begin(new_id(), **wrong)
    assert len(register.list().entries) == 1


def test_the_list_is_in_order(register: Register, new_id: NewId, clock: Clock) -> None:
    """Oldest first."""
    ids = []
    for _ in range(5):
        ids.append(register.begin(new_id()).id)
        clock.pass_by(1)
    assert [entry.id for entry in register.list().entries] == ids


def test_a_key_gives_the_sandbox_that_has_it(register: Register, new_id: NewId) -> None:
    """Whatever its state: starting, running or ended, and never a second one."""
    first = register.begin(new_id(), key=KEY)
    for move in (lambda: None, lambda: register.running(first.id), lambda: register.ended(first.id)):
        move()
        assert register.begin(new_id(), key=KEY) == register.get(first.id) == register.find(KEY)
    assert len(register.list().entries) == 1


def test_other_options_under_a_key_are_an_error(register: Register, new_id: NewId) -> None:
    """It names the sandbox that has the key, and enters nothing."""
    first = register.begin(new_id(), key=KEY)
    for call in (lambda key: register.begin(new_id(), key=key), register.find):
        with pytest.raises(ConfigurationError, match=f"it belongs to {first.id}, which was made with other options"):
            call(make_key("once", b"others"))
    assert len(register.list().entries) == 1


def test_keys_and_options_are_kept_as_digests(register: Register, new_id: NewId) -> None:
    """Neither can be read from the file; and the same options under two keys do not look the same."""
    register.begin(new_id(), key=make_key("the secret word", b"PASSWORD=hunter2"))
    content = Path(register.path).read_bytes()
    assert b"the secret word" not in content
    assert b"hunter2" not in content
    assert make_key("a", b"x").options != make_key("b", b"x").options


def test_a_start_that_never_came_to_be_gives_its_key_back(register: Register, new_id: NewId) -> None:
    """When its creator died, said that it failed, or was found dead: the key is for a sandbox, not for an attempt."""
    lost = register.begin(new_id(), creator=dead(), key=KEY)
    second = register.begin(new_id(), key=KEY)
    assert second.id != lost.id
    assert (entry := register.get(lost.id)) is not None
    assert (entry.state, entry.key) == ("ended", None)
    register.discard(second.id)
    third = register.begin(new_id(), key=KEY)
    register.ended(third.id)
    assert register.begin(new_id(), key=KEY).id not in {second.id, third.id}


def test_a_running_one_keeps_its_key_without_its_creator(register: Register, new_id: NewId) -> None:
    """It is detached: its creator's death says nothing."""
    first = register.begin(new_id(), creator=dead(), key=KEY)
    register.running(first.id)
    assert register.begin(new_id(), key=KEY).id == first.id


@pytest.mark.parametrize(
    ("creator", "taken_over"),
    [
        pytest.param(dead(boot="0" * 32), True, id="of this host, before it was started again"),
        pytest.param(dead(host="0" * 16, boot="0" * 32), False, id="of another host"),
        pytest.param(current_owner(), False, id="alive"),
    ],
)
def test_whose_start_is_taken_over(
    register: Register, new_id: NewId, clock: Clock, creator: OwnerRecord, taken_over: bool
) -> None:
    """Only one whose creator is dead; not after a day either while it may live, or where that cannot be known."""
    first = register.begin(new_id(), creator=creator, key=KEY)
    clock.pass_by(2 * DAY)
    assert (register.begin(new_id(), key=KEY).id != first.id) is taken_over


def test_a_start_in_another_pid_namespace_is_taken_over_after_a_day(register: Register, new_id: NewId, clock: Clock) -> None:
    """A container that is gone cannot be told from one that runs: the key waits, but not for ever."""
    here = current_owner()
    other = replace(here, process=replace(here.process, namespace=here.process.namespace + 1))
    first = register.begin(new_id(), creator=other, key=KEY)
    clock.pass_by(DAY - 1)
    assert register.begin(new_id(), key=KEY).id == first.id
    clock.pass_by(1)
    assert register.begin(new_id(), key=KEY).id != first.id


@pytest.mark.parametrize("jump", [0.0, 400 * DAY, -400 * DAY, -1e12], ids=["none", "a year ahead", "a year back", "to 1970"])
def test_what_ended_is_forgotten_after_a_day(register: Register, new_id: NewId, clock: Clock, jump: float) -> None:
    """Its key too; by the time that has passed, whatever the wall clock says. What lives is never forgotten."""
    old, alive = register.begin(new_id(), key=KEY), register.begin(new_id())
    register.running(old.id)
    register.ended(old.id)
    clock.pass_by(DAY - 1, wall=jump)
    assert register.forget() == ()
    assert register.begin(new_id(), key=KEY).id == old.id
    clock.pass_by(1)
    assert register.forget() == (old.id,)
    assert register.get(old.id) is None
    assert register.begin(new_id(), key=KEY).state == "starting"
    clock.pass_by(1000 * DAY)
    assert register.forget() == ()
    assert register.get(alive.id) is not None


def test_one_from_the_future_is_forgotten_too(register: Register, new_id: NewId, clock: Clock) -> None:
    """It was written while the clock was wrong, before the machine was started again."""
    here = clock.moment
    clock.moment = Moment(here.wall + 400 * DAY, "0" * 32, 5000.0)
    name = register.begin(new_id()).id
    register.ended(name)
    clock.moment = replace(here, up=DAY - 1)
    assert register.forget() == ()
    clock.moment = replace(here, up=DAY)
    assert register.forget() == (name,)


RACE = """
import sys
from isandbox._state.directory import StateDirectory
from isandbox._state.register import Register, make_key
register = Register(StateDirectory.open(sys.argv[1]))
for number in range(200):
    name = f"seccomp-{sys.argv[2]}{number:07x}"
    entry = register.begin(name, key=make_key(f"key {number}", b"the same"))
    if entry.id == name:
        print(number)
        register.running(name)
"""


def test_two_processes_with_one_key(state: StateDirectory) -> None:
    """200 times both begin with the same key: each time one of them gets it, and the other is given that one's entry."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, state.path, digit], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for digit in "ab"
    ]
    said = [racer.communicate() for racer in racers]
    assert [errors for _, errors in said] == ["", ""]
    assert [racer.returncode for racer in racers] == [0, 0]
    won = [[int(number) for number in output.split()] for output, _ in said]
    assert sorted(won[0] + won[1]) == list(range(200))
    entries = Register(state).list().entries
    assert len(entries) == 200
    assert {entry.state for entry in entries} == {"running"}
