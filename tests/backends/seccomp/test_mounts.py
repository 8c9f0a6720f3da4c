"""The mount plan: what stands where, whatever the order in which it was asked for."""

from __future__ import annotations

from itertools import permutations
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import ConfigurationError
from isandbox_backends._shared.plan import (
    NODEV,
    NOEXEC,
    NOSUID,
    RDONLY,
    Bind,
    Cover,
    Devpts,
    Directory,
    File,
    Proc,
    Rebind,
    Symlink,
    Tmpfs,
    View,
)
from isandbox_backends.seccomp.covers import Source
from isandbox_backends.seccomp.mounts import HOME, WORKSPACE, mount_plan, writable_paths
from isandbox_backends.seccomp.view import HostView, host_view

VIEW = HostView(
    links=(("bin", "usr/bin"), ("lib", "usr/lib")),
    directories=("lib64",),
    etc_links=(("localtime", "/usr/share/zoneinfo/UTC"),),
    etc_binds=("ld.so.cache", "alternatives", "ssl/certs"),
    etc_copies=(("services", b"ssh 22/tcp\n"),),
    devices=("null", "tty"),
    masked=("keys",),
)
ROOM = Source("/host/ws", WORKSPACE, writable=True, is_dir=True)


def source(target: str, **options: Any) -> Source:
    return Source(f"/host{target}", target, options.pop("writable", False), options.pop("is_dir", True), **options)


def made(plan: list[Any]) -> list[str]:
    return [f"/{record.target}" for record in plan if isinstance(record, (Directory, File, Symlink))]


def binds(plan: list[Any]) -> list[str]:
    return [f"/{record.target}" for record in plan if isinstance(record, Bind)]


PARTS = st.sampled_from(
    ["a", "b", "usr", "etc", "home", "user", "tmp", "workspace", "lib64", "ssl", "certs", "alternatives", "opt"]
)
TARGETS = st.lists(PARTS, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
MOUNTS = st.lists(TARGETS, unique=True, max_size=5)


@given(MOUNTS, st.randoms())
def test_order_does_not_matter(targets: list[str], chance: Any) -> None:
    """Any order of the caller's mounts gives the same plan, or the same refusal."""

    def outcome(order: list[str]) -> object:
        try:
            return mount_plan(VIEW, ROOM, [source(target) for target in order])
        except ConfigurationError as error:
            return str(error)

    shuffled = targets[:]
    chance.shuffle(shuffled)
    assert outcome(targets) == outcome(shuffled)


@given(MOUNTS)
def test_nothing_is_made_in_a_directory_of_the_host(targets: list[str]) -> None:
    """No directory, file or link is planned below a bind that stands already, and none twice."""
    try:
        plan = mount_plan(VIEW, ROOM, [source(target) for target in targets])
    except ConfigurationError:
        return
    covered: list[PurePosixPath] = []
    seen: set[str] = set()
    for record in plan:
        if isinstance(record, View):
            continue
        place = PurePosixPath("/", record.target)
        if isinstance(record, Bind):
            covered.append(place)
        elif isinstance(record, Rebind):
            seen -= {path for path in seen if path.startswith(f"/{record.target}/")}  # covered from here on
        elif isinstance(record, (Directory, File, Symlink)):
            assert not any(place.is_relative_to(bind) for bind in covered), record
            assert str(place) not in seen
            seen.add(str(place))


@given(MOUNTS)
def test_every_place_is_made_before_it_is_used(targets: list[str]) -> None:
    """A mount point is there when its mount comes, unless it lies in a directory of the host; parents come first."""
    try:
        plan = mount_plan(VIEW, ROOM, [source(target) for target in targets])
    except ConfigurationError:
        return
    there = {PurePosixPath("/")}
    covered: list[PurePosixPath] = [PurePosixPath("/proc")]
    for record in plan:
        if isinstance(record, View):
            continue
        place = PurePosixPath("/", record.target)
        if isinstance(record, (Bind, Tmpfs, Proc, Devpts)):
            assert place in there or any(place.is_relative_to(bind) for bind in covered), record
            if isinstance(record, Bind):
                covered.append(place)
        elif not isinstance(record, Cover):
            assert place.parent in there, record
            there.add(place)


def test_the_most_specific_mount_wins() -> None:
    """What is deeper is mounted after what is above it, in every order."""
    targets = ["/data/a/b", "/data", "/data/a", "/workspace/x"]
    for order in permutations(targets):
        mine = binds(mount_plan(VIEW, ROOM, [source(target) for target in order]))
        assert mine.index("/data") < mine.index("/data/a") < mine.index("/data/a/b")
        assert mine.index(WORKSPACE) < mine.index("/workspace/x")


@pytest.mark.parametrize("target", ["/proc", "/proc/self", "/dev", "/dev/shm", "/dev/null", "/sys", "/sys/fs/cgroup"])
def test_reserved_places(target: str) -> None:
    """The sandbox's own /proc, /dev and /sys cannot be covered by something of the host."""
    with pytest.raises(ConfigurationError, match=target):
        mount_plan(VIEW, ROOM, [source(target)])


@pytest.mark.parametrize(
    ("target", "is_dir", "word"),
    [
        ("/bin", True, "link to usr/bin"),
        ("/bin/tool", False, "link to usr/bin"),
        ("/var/tmp", True, "link to /tmp"),
        ("/var/tmp/x/y", True, "link to /tmp"),
        ("/etc/mtab", False, "link"),
        ("/etc/passwd", True, "is a file inside"),
        ("/etc/passwd/x", True, "is a file inside"),
        ("/etc", False, "is a directory inside"),
        ("/home/user", False, "is a directory inside"),
    ],
)
def test_what_is_in_the_way_is_named(target: str, is_dir: bool, word: str) -> None:
    """A link or the wrong kind of entry of the view is a ConfigurationError, not a failure of the start."""
    with pytest.raises(ConfigurationError, match=word):
        mount_plan(VIEW, ROOM, [source(target, is_dir=is_dir)])


@pytest.mark.parametrize(
    ("target", "is_dir", "expected"),
    [
        ("/opt/tool", True, ["/opt", "/opt/tool"]),
        ("/opt/tool", False, ["/opt", "/opt/tool"]),
        ("/etc/passwd", False, []),
        ("/etc/ssl", True, []),
        ("/etc/own.conf", False, ["/etc/own.conf"]),
        ("/etc/alternatives/x", False, []),
        ("/usr/share/x", True, []),
        ("/lib64/x", False, []),
        ("/workspace/sub", True, []),
        ("/home/user/data", True, ["/home/user/data"]),
        ("/tmp/a/b", True, ["/tmp/a", "/tmp/a/b"]),
        ("/usr", True, []),
    ],
)
def test_mount_points(target: str, is_dir: bool, expected: list[str]) -> None:
    """What is missing is made, a file for a file; in directories of the host and on entries of the view nothing is."""
    base = mount_plan(VIEW, ROOM, [])
    plan = mount_plan(VIEW, ROOM, [source(target, is_dir=is_dir)])
    assert plan[: len(base)] == base
    assert made(plan[len(base) :]) == expected
    assert plan[-1] == Bind(f"/host{target}", target[1:], RDONLY | NOSUID | NODEV, recursive=True)
    if expected:
        assert isinstance(plan[-2], Directory if is_dir else File)


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("mapped", [True, False])
def test_attributes(writable: bool, mapped: bool) -> None:
    """Never set-user-id or devices; read-only unless writable; an id mapping is of one mount and not what is below it."""
    room = Source("/host/ws", WORKSPACE, writable=writable, is_dir=True, owner_is_user=mapped)
    bind = next(r for r in mount_plan(VIEW, room, []) if isinstance(r, Bind) and r.target == "workspace")
    assert bind.attributes == NOSUID | NODEV | (0 if writable else RDONLY)
    # Writing must be as the owner; reading falls back to the owner that everybody sees.
    assert (bind.idmap, bind.recursive) == ((1 if writable else 2) if mapped else 0, not mapped)


def test_the_host_is_read_only() -> None:
    """Without mounts of the caller only the workspace and the devices can be written through."""
    plan = mount_plan(VIEW, ROOM, [])
    open_ones = [r.target for r in plan if isinstance(r, Bind) and not r.attributes & RDONLY]
    assert open_ones == ["dev/null", "dev/tty", "workspace"]
    assert all(r.attributes & NOEXEC for r in plan if isinstance(r, Bind) and r.target.startswith("dev/"))
    assert all(r.attributes & NOSUID for r in plan if isinstance(r, (Bind, Tmpfs)))


@pytest.mark.parametrize("scratch", [None, 4096, 1 << 30])
def test_scratch_space_is_one_tmpfs(scratch: int | None) -> None:
    """One tmpfs of the given size holds all scratch space; its directories are seen at their places, /tmp last."""
    plan = mount_plan(VIEW, None, [], scratch=scratch)
    (tmpfs,) = [r for r in plan if isinstance(r, Tmpfs)]
    assert tmpfs.target == "tmp"
    assert [o for o in tmpfs.options.split(",") if o.startswith("size=")] == ([] if scratch is None else [f"size={scratch}"])
    places = {r.target: r.source for r in plan if isinstance(r, Rebind)}
    assert places == {"dev/shm": "tmp/shm", "home/user": "tmp/home", "workspace": "tmp/workspace", "tmp": "tmp/tmp"}
    assert isinstance(plan[-1], Rebind)
    assert plan[-1].target == "tmp"


def test_a_mount_may_stand_where_scratch_space_was_made() -> None:
    """A caller's mount below /tmp gets its own mount point, also under a name that the scratch space uses itself."""
    plan = mount_plan(VIEW, None, [source("/tmp/home/x"), source("/tmp/workspace")])
    made = [r.target for r in plan[plan.index(Rebind("tmp/tmp", "tmp")) :] if isinstance(r, Directory)]
    assert sorted(made) == ["tmp/home", "tmp/home/x", "tmp/workspace"]


def test_masked_files_come_after_proc() -> None:
    """What tells about the host is covered once there is a /proc to cover it in."""
    plan = mount_plan(VIEW, ROOM, [])
    mask = Bind("/dev/null", "proc/keys", RDONLY | NOSUID | NOEXEC)
    assert plan.index(mask) > plan.index(Proc("proc"))


def test_writable_paths() -> None:
    """Scratch space, and what the caller wants written; nothing else."""
    mounts = [source("/a", writable=True), source("/b")]
    assert writable_paths(ROOM, mounts) == ["/tmp", "/dev/shm", HOME, WORKSPACE, "/a"]
    assert WORKSPACE not in writable_paths(Source("/w", WORKSPACE, writable=False, is_dir=True), [])


def test_this_machines_view_has_a_plan() -> None:
    """The real view obeys the same rule: nothing is made twice."""
    plan = mount_plan(host_view(), ROOM, [])
    assert len(made(plan)) == len(set(made(plan)))
