"""Locks on ids: distinct for as long as somebody holds them, also across processes and deaths."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from isandbox_backends.seccomp.claims import Claim, claim

RANGES = range(1000, 1000 + 10 * 8, 8)
HOLDER = """
import os, sys
from isandbox_backends.seccomp.claims import claim
held = [claim(sys.argv[1], range(1000, 1080, 8)) for _ in range(5)]
print(*(one.first for one in held), flush=True)
os.read(0, 1)
"""


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "isandbox")


@pytest.fixture
def holder(place: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds five ranges, until it ends."""
    command = [sys.executable, "-c", HOLDER, place]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def free(place: str) -> set[int]:
    """What can be locked right now."""
    found = [claim(place, RANGES) for _ in RANGES]
    firsts = {one.first for one in found if one.fd >= 0}
    for one in found:
        one.close()
    return firsts


def test_everybody_gets_another_one(place: str) -> None:
    """As many claims as there are ranges are all distinct; the next is by chance and says so."""
    held = [claim(place, RANGES) for _ in RANGES]
    assert {one.first for one in held} == set(RANGES)
    assert all(one.fd >= 0 and not os.get_inheritable(one.fd) for one in held)
    more = claim(place, RANGES)
    assert (more.fd, more.why) == (-1, "many are in use")
    assert more.first in RANGES
    held.pop().close()
    assert claim(place, RANGES).fd >= 0


def test_other_processes_are_seen(place: str, holder: subprocess.Popen[str]) -> None:
    """What another process holds is not given; what a killed one held is."""
    assert holder.stdout is not None
    theirs = {int(word) for word in holder.stdout.readline().split()}
    assert len(theirs) == 5
    assert free(place) == set(RANGES) - theirs
    holder.kill()
    holder.wait(30)
    assert free(place) == set(RANGES)


def test_a_copy_of_the_descriptor_keeps_it(place: str) -> None:
    """When our copy is closed, the ids stay with whoever has inherited the lock."""
    ours = claim(place, RANGES)
    theirs = os.dup(ours.fd)
    ours.close()
    assert free(place) == set(RANGES) - {ours.first}
    os.close(theirs)
    assert free(place) == set(RANGES)


def test_a_forked_child_neither_frees_nor_keeps_it(place: str) -> None:
    """Its end does not free what the parent holds, and its life does not keep what the parent has given back."""
    ours = claim(place, RANGES)
    ready, say = os.pipe()
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.write(say, b"x")
        os.read(wait, 1)
        os._exit(int(ours.fd != -1))
    try:
        os.read(ready, 1)
        assert free(place) == set(RANGES) - {ours.first}
        ours.close()
        assert free(place) == set(RANGES)
    finally:
        for fd in (go, ready, say, wait):
            os.close(fd)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_claim_that_is_dropped_is_closed(place: str) -> None:
    """Without a close its descriptor does not stay open."""
    ours = claim(place, RANGES)
    fd = ours.fd
    del ours
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_ids_of_others_are_left_out(place: str) -> None:
    """A range that touches one of somebody else's is never given, at either end; when all do, there is an error."""
    given = [range(990, 1001), range(1015, 1017), range(1031, 1032), range(1079, 2000)]
    expected = {first for first in RANGES if not any(set(range(first, first + 8)) & set(other) for other in given)}
    held = [claim(place, RANGES, given) for _ in expected]
    assert {one.first for one in held} == expected == {1032, 1040, 1048, 1056, 1064}
    assert claim(place, RANGES, given).first in expected
    with pytest.raises(LookupError, match="1000 to 1079"):
        claim(place, RANGES, [range(5000)])


def unusable(place: Path, kind: str) -> str:
    place.parent.mkdir()
    if kind == "open to others":
        place.mkdir()
        place.chmod(0o777)
    elif kind == "a link":
        (place.parent / "real").mkdir(mode=0o700)
        place.symlink_to("real")
    elif kind == "a file":
        place.touch()
    elif kind == "a link to the file":
        place.mkdir(mode=0o700)
        (place / "ids").symlink_to("/dev/null")
    elif kind == "a pipe for the file":
        place.mkdir(mode=0o700)
        os.mkfifo(place / "ids")
    if kind == "nowhere":
        return "isandbox-nowhere/isandbox"
    return "/proc/no/such/place" if kind == "not to be made" else str(place)


@pytest.mark.parametrize(
    "kind", ["open to others", "a link", "a file", "a link to the file", "a pipe for the file", "not to be made", "nowhere"]
)
def test_a_directory_that_cannot_be_trusted(tmp_path: Path, kind: str) -> None:
    """Nothing is locked there, ids are by chance, and the claim says why; a good one beside it locks."""
    found = claim(unusable(tmp_path / "x" / "isandbox", kind), RANGES)
    assert found.fd == -1
    assert found.first in RANGES
    assert "cannot be used" in found.why
    assert not os.path.lexists("isandbox-nowhere")
    assert claim(str(tmp_path / "good"), RANGES).fd >= 0


def test_what_is_made_is_closed_to_others(tmp_path: Path) -> None:
    """The directory and those above it that were missing are the owner's alone under any umask; a home is not made."""
    home = tmp_path / "home"
    assert "No such file" in claim(str(home / ".local/state/isandbox"), RANGES).why
    assert not home.exists()
    home.mkdir()
    before = os.umask(0)
    try:
        assert claim(str(home / ".local/state/isandbox"), RANGES).fd >= 0
    finally:
        os.umask(before)
    assert {str(path.relative_to(home)): path.stat().st_mode & 0o777 for path in home.rglob("*")} == {
        ".local": 0o700,
        ".local/state": 0o700,
        ".local/state/isandbox": 0o700,
        ".local/state/isandbox/ids": 0o600,
    }


def test_a_claim_without_a_lock_has_nothing_to_close() -> None:
    """Closing it, twice too, is nothing."""
    one = Claim(7, why="chance")
    one.close()
    one.close()
    assert one.first == 7
