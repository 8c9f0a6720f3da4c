"""Ids as text: which maps a sandbox gets, and what the files that give ids to users say."""

from __future__ import annotations

import pytest

from isandbox_backends._shared.plan import IdMaps, IdUse
from isandbox_backends.seccomp import ids
from isandbox_backends.seccomp.space import lines_of
from isandbox_backends.seccomp.subordinate import Grant, entries, largest

GRANT = Grant(1001, 1002, "/home/ann", range(200_000, 265_536), range(300_000, 365_536))


def test_a_range_of_root() -> None:
    """Helper, owner of the namespace and command are three ids of one range; nothing outside it is mapped."""
    found = ids.of_range(0x7800_0400, IdUse.CLAIM)
    assert found.maps == IdMaps("0 2013266944 1024", "0 2013266944 1024", IdUse.CLAIM | IdUse.OWNER, 2013266945)
    assert (found.split, found.early, found.command_owner) == (True, True, 2013266944 + 1000)


def test_the_ranges_of_root_are_nobody_elses() -> None:
    """They lie above what containers and directory services give out, below foreign files and the sign bit, and do not overlap."""
    ranges = ids.ROOT_RANGES
    assert (ranges[0] > 1_879_048_191, ranges[0] > 2_000_200_000) == (True, True)
    assert ranges[-1] + ids.LENGTH == 2_147_352_576
    assert ranges.step == ids.LENGTH > 1000
    assert len(ranges) == 130_944


def test_one_id() -> None:
    """A user without subordinate ids maps its own one to the command's."""
    assert ids.single(1001, 1002) == ids.Ids(IdMaps("1000 1001 1", "1000 1002 1"))


@pytest.mark.parametrize(("own", "command", "owner"), [(False, 32_769, 232_769), (True, 65_536, None)])
def test_subordinate_ids(own: bool, command: int, owner: int | None) -> None:
    """The helper has the first of a pair; commands the second, or the user's own id, which is after all subordinate ones."""
    found = ids.subordinate(GRANT, 232_768, own=own)
    lines = f"0 32768 1\n1000 {command} 1"
    assert found == ids.Ids(IdMaps(lines, lines, IdUse.OUTER), split=True, command_owner=owner)


def test_the_outer_namespace() -> None:
    """It has the subordinate ids from 0 on and the user's own after them."""
    assert lines_of(GRANT) == ([(0, 200_000, 65_536), (65_536, 1001, 1)], [(0, 300_000, 65_536), (65_536, 1002, 1)])


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, range(100, 101, 2)),
        (3, range(100, 102, 2)),
        (5, range(100, 104, 2)),
        (65_536, range(100 + 32_768, 100 + 65_535, 2)),
    ],
)
def test_pairs(count: int, expected: range) -> None:
    """Pairs do not overlap and lie within the grant; a long one keeps its lower half for container engines."""
    grant = Grant(1, 1, "/", range(100, 100 + count), range(500, 500 + count))
    assert ids.pairs(grant) == expected
    assert all(first + 1 in grant.uids for first in ids.pairs(grant))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ann:100000:65536", [("ann", range(100_000, 165_536))]),
        ("1001:5:1", [("1001", range(5, 6))]),
        ("", []),
        ("# ann:1:1", []),
        ("ann:1", []),
        ("ann:1:0", []),
        ("ann:-1:5", []),
        ("ann:x:5", []),
        (":1:5", []),
        ("ann:1:5:6", []),
    ],
)
def test_entries(line: str, expected: list[tuple[str, range]]) -> None:
    """A line is owner, first id and count; what is not such a line gives nothing."""
    assert list(entries(line + "\n")) == expected


def test_the_largest_entry_counts() -> None:
    """Of several the longest one, by name or by number, and never more than 65,536."""
    text = "bob:1:9\nann:100:10\n1001:200:20\nann:300:15\nhuge:1000:100000\n"
    assert largest(text, ("ann", "1001")) == range(200, 220)
    assert largest(text, ("huge", "7")) == range(1000, 66_536)
    assert len(largest(text, ("nobody",))) == 0
