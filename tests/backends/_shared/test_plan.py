"""The compiled plan: records to the bytes that plan.h describes."""

from __future__ import annotations

import struct
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox_backends._shared.plan import (
    Affinity,
    Allow,
    Bind,
    Cover,
    Devpts,
    Directory,
    File,
    Hostname,
    IdMaps,
    IdUse,
    Landlock,
    Life,
    Mode,
    ModeRecord,
    Outside,
    Proc,
    Rebind,
    Record,
    Rlimit,
    Seccomp,
    Store,
    Symlink,
    Sysctl,
    Tmpfs,
    View,
    encode_plan,
)

GOLDEN: list[tuple[Any, int, bytes]] = [
    (
        ModeRecord(Mode.NAMESPACES | Mode.LOOPBACK, 0x10, 1000, 1001, 256, 1 << 30, 5),
        1,
        struct.pack("<QIIIIQQ", 0x10, 5, 1000, 1001, 256, 1 << 30, 5),
    ),
    (IdMaps("0 1 2", "3 4 5", IdUse.OWNER, 9), 2, struct.pack("<II", 4, 9) + b"0 1 2\x003 4 5\0"),
    (Bind("/s", "t", 7, idmap=True, recursive=False), 3, struct.pack("<IIII", 7, 1, 0, 0) + b"/s\0t\0"),
    (Life(86_400_000, 5000), 22, struct.pack("<QQ", 86_400_000, 5000)),
    (Tmpfs("tmp", "mode=1777"), 4, struct.pack("<II", 6, 0) + b"mode=1777\0tmp\0"),
    (Proc("proc"), 5, b"proc\0"),
    (Devpts("dev/pts"), 6, b"dev/pts\0"),
    (Directory("etc", 0o700), 7, struct.pack("<II", 0o700, 0) + b"etc\0"),
    (Symlink("/proc/self/fd", "dev/fd"), 8, b"/proc/self/fd\0dev/fd\0"),
    (File("etc/x", b"a\0b"), 9, struct.pack("<II", 0o644, 3) + b"etc/x\0a\0b"),
    (Hostname("sandbox"), 10, b"sandbox\0"),
    (Rlimit(7, 1, 2), 11, struct.pack("<IIQQ", 7, 0, 1, 2)),
    (Landlock(1, 2), 12, struct.pack("<QQ", 1, 2)),
    (Allow("/tmp", 3), 13, struct.pack("<Q", 3) + b"/tmp\0"),
    (Seccomp(b"12345678"), 14, b"12345678"),
    (Affinity((0, 65)), 15, struct.pack("<QQ", 1, 2)),
    (Rebind("tmp/tmp", "tmp"), 16, b"tmp/tmp\0tmp\0"),
    (Sysctl("user/max_user_namespaces", "0"), 17, b"user/max_user_namespaces\x000\0"),
    (Store("tmp/store"), 18, b"tmp/store\0"),
    (View("workspace", "view"), 19, b"workspace\0view\0"),
    (Cover("view/a", "view", in_store=True), 20, struct.pack("<IIII", 1, 0, 4, 0) + b"directory\0view/a\0"),
    (Cover("m/a", "m", "room", needed=True), 20, struct.pack("<IIII", 0, 1, 1, 0) + b"room\0m/a\0"),
    (Outside((1, 2, 3, 4, 5, 6, 1 << 40)), 21, struct.pack("<7Q", 1, 2, 3, 4, 5, 6, 1 << 40)),
]


def records(plan: bytes) -> list[tuple[int, bytes]]:
    """The helper's loop, in Python."""
    magic, version, total, zero = struct.unpack_from("<4sIII", plan)
    assert (magic, version, total, zero) == (b"ISBP", 1, len(plan), 0)
    found, at = [], 16
    while at < len(plan):
        assert at % 8 == 0
        tag, length = struct.unpack_from("<II", plan, at)
        found.append((tag, plan[at + 8 : at + 8 + length]))
        padding = plan[at + 8 + length : at + 8 + (length + 7) // 8 * 8]
        assert not any(padding)
        at += 8 + (length + 7) // 8 * 8
    assert at == len(plan)
    return found


@pytest.mark.parametrize(("record", "tag", "payload"), GOLDEN, ids=lambda value: type(value).__name__)
def test_golden_bytes(record: Any, tag: int, payload: bytes) -> None:
    """Each record has the tag and layout of plan.h."""
    assert record.encode() == (tag, payload)


def test_every_tag_has_a_row() -> None:
    """Each kind of record stands above, with a number of its own."""
    assert {type(record) for record, _, _ in GOLDEN} == set(get_args(Record))
    assert sorted({tag for _, tag, _ in GOLDEN}) == list(range(1, len(get_args(Record)) + 1))


@given(st.lists(st.sampled_from(GOLDEN), max_size=20))
def test_a_plan_reads_back(rows: list[tuple[Any, int, bytes]]) -> None:
    """Header, alignment and padding are what the helper's parser walks."""
    assert records(encode_plan(record for record, _, _ in rows)) == [(tag, payload) for _, tag, payload in rows]


@pytest.mark.parametrize(
    "record",
    [
        IdMaps("0\0", ""), Bind("/a\0", "b"), Bind("/a", "b\0c"), Tmpfs("t\0", ""), Tmpfs("t", "o\0"), Proc("\0"), Devpts("\0"),
        Directory("a\0"), Symlink("a\0", "b"), Symlink("a", "b\0"), File("a\0"), Hostname("h\0"), Allow("/\0", 1),
    ],
)  # fmt: skip
def test_a_nul_cannot_shift_what_follows(record: Any) -> None:
    """A NUL in a text would end it early and make the rest another field."""
    with pytest.raises(ValueError, match="NUL"):
        encode_plan([record])


def test_names_that_are_no_text_come_through_as_their_bytes() -> None:
    """Paths of the host are bytes; those that are not UTF-8 come back as they were."""
    assert Proc("\udcff").encode() == (5, b"\xff\0")
