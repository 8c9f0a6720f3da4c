"""Subordinate ids: why there are none, and programs that fail, hang or lie."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isandbox import UnsupportedError
from isandbox.sync import create_sandbox
from isandbox_backends._shared.cgroups import Place
from isandbox_backends.seccomp import identity, space, subordinate
from isandbox_backends.seccomp.options import SeccompOptions
from isandbox_backends.seccomp.space import Space
from isandbox_backends.seccomp.subordinate import Grant, Refused

ANN = Grant(os.geteuid(), os.getegid(), "/nowhere", range(200_000, 265_536), range(300_000, 365_536))


class Machine:
    """The files that `find_grant` reads, of a user who may map ids until something is taken away."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch) -> None:
        self.files = (place / "subuid", place / "subgid")
        for path in self.files:
            path.write_text("ann:100000:65536\n")
        self.user = SimpleNamespace(pw_name="ann", pw_gid=os.getegid(), pw_dir="/home/ann")
        self.known = True
        self.program = SimpleNamespace(st_mode=0o104755, st_uid=0)
        patch.setattr(subordinate, "FILES", tuple(map(str, self.files)))
        patch.setattr(subordinate, "PROGRAMS", ("/made-up/newuidmap", "/made-up/newgidmap"))
        patch.setattr(pwd, "getpwuid", self.getpwuid)
        stat = os.stat
        patch.setattr(
            os, "stat", lambda path, **more: self.found() if str(path).startswith("/made-up") else stat(path, **more)
        )

    def getpwuid(self, uid: int) -> SimpleNamespace:
        if not self.known:
            raise KeyError(uid)
        return self.user

    def found(self) -> SimpleNamespace:
        if self.program is None:
            raise FileNotFoundError
        return SimpleNamespace(st_dev=1, st_ino=1, st_size=1, st_mtime_ns=1, st_ctime_ns=1, **vars(self.program))


def nameless(machine: Machine) -> None:
    machine.known = False


def in_another_group(machine: Machine) -> None:
    machine.user.pw_gid += 1


def without_gids(machine: Machine) -> None:
    machine.files[1].write_text("bob:1:65536\n")


def with_one_uid(machine: Machine) -> None:
    machine.files[0].write_text("ann:100000:1\n")


def without_programs(machine: Machine) -> None:
    machine.program = None  # type: ignore[assignment]


def with_a_program_of_a_users(machine: Machine) -> None:
    machine.program.st_uid = 1000


def with_a_program_that_all_can_write(machine: Machine) -> None:
    machine.program.st_mode |= 0o002


def without_the_bit(machine: Machine) -> None:
    machine.program.st_mode = 0o100755


REASONS: dict[Callable[[Machine], None], str] = {
    nameless: "has no name",
    in_another_group: "not the user's own",
    without_gids: "give ann nothing: usermod",
    with_one_uid: "give ann nothing: usermod",
    without_programs: "apt-get install uidmap",
    with_a_program_of_a_users: "not a program of root's alone",
    with_a_program_that_all_can_write: "not a program of root's alone",
    without_the_bit: "has no privilege",
}


@pytest.mark.parametrize("change", REASONS, ids=lambda change: change.__name__)
def test_why_there_is_no_grant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Machine], None]) -> None:
    """Each thing that is missing is named, with what to do; nothing missing is a grant; and a change of the files is seen."""
    machine = Machine(tmp_path, monkeypatch)
    subordinate._grant.cache_clear()
    whole = subordinate.find_grant()
    assert whole == Grant(os.geteuid(), os.getegid(), "/home/ann", range(100_000, 165_536), range(100_000, 165_536))
    change(machine)
    if change in (nameless, in_another_group) or change not in (without_gids, with_one_uid):  # of no file here
        subordinate._grant.cache_clear()
    refused = subordinate.find_grant()
    subordinate._grant.cache_clear()
    assert isinstance(refused, Refused)
    assert REASONS[change] in refused.why


def test_what_is_given_to_others_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files count, and an entry that is added later too."""
    machine = Machine(tmp_path, monkeypatch)
    assert subordinate.given_to_others(165_535, 200_000) == (range(100_000, 165_536),) * 2
    assert subordinate.given_to_others(165_536, 200_000) == subordinate.given_to_others(0, 99_999) == ()
    machine.files[0].write_text("ann:100000:65536\nbob:5:5\n")
    assert subordinate.given_to_others(0, 99_999) == (range(5, 10),)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """``programs(script)``: in place of newuidmap and newgidmap, for processes that have no namespace yet."""
    program = tmp_path / "map"

    def put(script: str) -> None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(space, "PROGRAMS", (str(program), str(program)))

    kept = dict(space._spaces)
    space._spaces.clear()
    yield put
    space._spaces.clear()
    space._spaces.update(kept)


@pytest.mark.native
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo not allowed >&2; exit 1", "did not map: not allowed"),
        ("exit 0", "did not map: it said nothing"),
        ("exec sleep 60", "did not map: no answer in time"),
        ("env >&2; exit 1", "PWD="),
        ("kill -9 $1", "did not map"),
    ],
)
def test_programs_that_do_not_map(programs: Callable[[str], None], script: str, why: str) -> None:
    """Whatever they say or do, the kernel's maps count: there is a reason, within the time, and nothing is left."""
    programs(script)
    began = time.monotonic()
    found = space.space(ANN, 2.0)
    assert isinstance(found, Refused)
    assert why in found.why
    assert "HOME=" not in found.why
    assert time.monotonic() - began < 30
    assert space.known(ANN) is (None if "sleep" in script else found)


@pytest.mark.native
def test_a_start_in_a_hurry_decides_for_itself_only(programs: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """That programs took longer than one start could wait for is forgotten; that they hang for long is not."""
    programs("exec sleep 60")
    assert "no answer in time" in space.space(ANN, 0.05).why  # type: ignore[union-attr]
    assert space.known(ANN) is None
    monkeypatch.setattr(space, "_PATIENCE", 0.2)
    found = space.space(ANN, 0.5)
    assert space.known(ANN) is found


@pytest.mark.native
def test_what_is_lacking_for_a_moment_is_not_remembered(
    programs: Callable[[str], None], exhausted: Callable[[], AbstractContextManager[None]]
) -> None:
    """A process without a free descriptor has no namespace and no ids then; as soon as it has some it looks again."""
    programs("echo no >&2; exit 1")
    with exhausted():
        assert "Too many open files" in space.space(ANN, 5).why  # type: ignore[union-attr]
    assert space.known(ANN) is None
    assert "did not map: no" in space.space(ANN, 5).why  # type: ignore[union-attr]


def test_ids_are_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exhausted: Callable[[], AbstractContextManager[None]]
) -> None:
    """For want of descriptors nobody has ids and nothing is given to others, but for that moment only: the latter is an error."""
    machine = Machine(tmp_path, monkeypatch)
    for change in (lambda: None, lambda: nameless(machine)):
        subordinate._grant.cache_clear()
        change()
        with exhausted():
            assert subordinate.find_grant() == Refused("this process cannot look up its ids: Too many open files")
            with pytest.raises(OSError, match="Too many open files"):
                subordinate.given_to_others(100_000, 100_001)
        machine.known = True
        assert isinstance(subordinate.find_grant(), Grant)
        assert len(subordinate.given_to_others(100_000, 100_001)) == 2
        subordinate._given.cache_clear()
    subordinate._grant.cache_clear()


def test_a_start_does_not_wait_for_another_ones_programs() -> None:
    """Whoever finds somebody trying waits for its own time only, and that is remembered for nobody."""
    with space._making:
        began = time.monotonic()
        found = space.space(ANN, 0.1)
        assert isinstance(found, Refused)
        assert "another start" in found.why
        assert time.monotonic() - began < 20
    assert space.known(ANN) is None


@pytest.mark.native
def test_programs_get_numbers_and_no_more(programs: Callable[[str], None], tmp_path: Path) -> None:
    """Arguments are the pid and the lines of the map, the input is empty, and no variable of ours is there."""
    programs(f'{{ echo "$@"; cat; env; }} > {tmp_path}/seen.$$; exit 1')
    space.space(ANN, 20)
    seen = [path.read_text().splitlines() for path in tmp_path.glob("seen.*")]
    maps = [[str(number) for line in lines for number in line] for lines in space.lines_of(ANN)]
    assert sorted(lines[0].split()[1:] for lines in seen) == sorted(maps)
    for lines in seen:
        assert {line.partition("=")[0] for line in lines[1:]} <= {"PWD", "SHLVL", "_", "OLDPWD"}  # the shell's own


@pytest.fixture
def promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user to whom the files give ids."""
    monkeypatch.setattr(identity, "find_grant", lambda: ANN)
    if os.geteuid() == 0:
        pytest.skip("root takes its own ids; the tests run as an ordinary user too")


@pytest.mark.native
@pytest.mark.usefixtures("promised")
def test_a_start_without_the_ids_that_were_promised(programs: Callable[[str], None]) -> None:
    """``auto`` starts with one id and says why; ``subordinate`` is refused with the same reason; ``single`` does not try."""
    programs("echo no such luck >&2; exit 1")
    for options in ({}, {"ids": "auto"}):
        with create_sandbox("seccomp", **options) as box:
            assert "no such luck" in box.info.layers["split_uid"]
            assert box.exec("id -u").stdout == "1000\n"
    with pytest.raises(UnsupportedError, match="no such luck"):
        create_sandbox("seccomp", ids="subordinate")
    space._spaces.clear()
    with create_sandbox("seccomp", ids="single") as box:
        assert box.info.layers["split_uid"] == "absent (one id: ids='single')"
    assert space._spaces == {}


@pytest.mark.usefixtures("promised")
def test_groups_that_take_no_other_id() -> None:
    """Where the sandbox's control group is one of version 1 the user's id is taken, and the reason told; in others it is not so."""
    options = SeccompOptions()
    refused = identity.look(options, Place("v1", {"memory": "/somewhere"}))
    assert isinstance(refused, Refused)
    assert "version 1" in refused.why
    assert identity.look(options, Place("v2", {"memory": "/somewhere"})) == identity.look(options, None) == ANN
    with pytest.raises(UnsupportedError, match="version 1"):
        identity.check(SeccompOptions(ids="subordinate"), Place("v1", {}))


@pytest.mark.native
@pytest.mark.usefixtures("promised")
def test_programs_that_hang(programs: Callable[[str], None]) -> None:
    """A start waits for half of ``start_timeout`` and goes on with one id, or is refused."""
    programs("exec sleep 60")
    with create_sandbox("seccomp", start_timeout=4) as box:
        assert "no answer in time" in box.info.layers["split_uid"]
    with pytest.raises(UnsupportedError, match="no answer in time"):
        create_sandbox("seccomp", ids="subordinate", start_timeout=4)


def test_a_namespace_that_somebody_has_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has closed all its descriptors, or has got another file by that number, makes a new one."""
    fd = os.open("/proc/self/ns/user", os.O_RDONLY)
    found = os.fstat(fd)
    made = Space(fd, (found.st_dev, found.st_ino))
    monkeypatch.setattr(space, "_spaces", {ANN: made})
    assert space.known(ANN) is made
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, fd)
    assert space.known(ANN) is None
    os.close(fd)
    os.close(null)
    assert space.known(ANN) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="root's refusal")
def test_root_shares_its_id_with_nobody() -> None:
    """``single`` is refused for root, whose commands would be root."""
    with pytest.raises(UnsupportedError, match="must not be root"):
        create_sandbox("seccomp", ids="single")


def test_a_word_that_is_none() -> None:
    """An unknown value of ``ids`` is refused when the sandbox is asked for, with those that there are."""
    options: dict[str, Any] = {"ids": "many"}
    with pytest.raises(ValueError, match="'auto', 'single' or 'subordinate', not 'many'"):
        create_sandbox("seccomp", **options)
