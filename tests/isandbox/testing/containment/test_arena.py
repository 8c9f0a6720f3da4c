"""What a probe works with: listeners, planted files, the state of the host, the list."""

from __future__ import annotations

import os
import resource
import socket
from dataclasses import replace
from typing import Any

import pytest

from isandbox.testing.containment import Listener, all_probes
from isandbox.testing.containment.host import HostState, changes, contents, difference, settled
from isandbox.testing.containment.registry import probe

KINDS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packets": socket.SOCK_SEQPACKET}


def visit(address: Any, kind: str) -> None:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, KINDS[kind]) as one:
        one.connect(address)
        one.send(b"x")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("abstract", [False, True])
async def test_listeners_count_who_comes(arena: Any, kind: Any, abstract: bool) -> None:
    """A socket of the host counts each connection or datagram, once, and none before there is one."""
    listener = arena.listen(f"\0{arena.planted.name}" if abstract else "socket", kind)
    assert listener.arrivals() == 0
    for expected in (1, 2):
        visit(listener.address, kind)
        assert listener.arrivals() == listener.arrivals() == expected


async def test_a_port_of_the_loopback(arena: Any) -> None:
    """A listener without a number gets one, and says which."""
    listener = arena.listen(("127.0.0.1", 0))
    assert listener.address[1] > 0
    visit(listener.address, "stream")
    assert listener.arrivals() == 1


async def test_a_listener_changes_nothing_planted(arena: Any) -> None:
    """Sockets below the planted directory belong to it; connecting to one is no change of the host."""
    arena.plant("secret")
    listener = arena.listen("socket")
    visit(listener.address, "stream")
    assert arena.changed() == []
    assert os.stat(listener.address).st_mode & 0o777 == 0o777


def test_a_listener_that_cannot_be_made(tmp_path: Any) -> None:
    """An address that cannot be had is an error, and no descriptor is left."""
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No such file"):
        Listener(str(tmp_path / "no" / "such" / "place"))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_shared_directories_are_sealed(arena: Any) -> None:
    """A directory to mount read-only is open to everybody on the host, and what becomes of it is seen."""
    place = arena.shared("place")
    assert arena.changed() == []
    (place / "file").chmod(0o600)
    assert arena.changed() == ["place/file"]


def test_contents_see_every_kind_of_change(tmp_path: Any) -> None:
    """Files, links, FIFOs and directories are told apart; a file that may not be read is no error, nor is a FIFO waited for."""
    for name in ("file", "gone"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    before = contents(tmp_path)
    assert difference(before, contents(tmp_path)) == []
    (tmp_path / "gone").unlink()
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("fifo")
    (tmp_path / "fifo").unlink()
    (tmp_path / "fifo").mkdir()
    assert difference(before, contents(tmp_path)) == [".", "fifo", "gone", "link"]


CHANGED: dict[str, Any] = {
    "children": frozenset({"1 init"}), "threads": 1000, "descriptors": 100_000, "memory": 1 << 50, "mounts": frozenset({"/ /new rw"}),
    "cgroups": frozenset({"/sys/fs/cgroup/isandbox-x"}), "listeners": frozenset({"addr(1)"}), "settings": frozenset({"core_pattern is |x"}),
    "process": frozenset({"priority 19"}),
}  # fmt: skip


async def test_the_host_is_what_it_was() -> None:
    """Two looks at a host where nothing happened differ in nothing; a difference in any field is told by its name."""
    before = HostState.now()
    assert await settled(before) == []
    assert set(CHANGED) == set(HostState.__dataclass_fields__)
    for name, value in CHANGED.items():
        (found,) = changes(before, replace(before, **{name: value}))
        assert found.startswith(name)
    assert changes(before, replace(before, children=frozenset(), descriptors=0)) == []


async def test_what_stays_is_told_after_a_while() -> None:
    """A thing that does not go away is a change even after the host had time to settle."""
    before = replace(HostState.now(), process=frozenset())
    assert [found.split(":")[0] for found in await settled(before, seconds=0.1)] == ["process"]


def test_this_process_is_part_of_the_host() -> None:
    """A limit, a priority or a directory that a probe changed in this very process is seen."""
    before = HostState.now()
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0 if soft else 1, hard))
        found = changes(before, HostState.now())
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert [one.split(":")[0] for one in found] == ["process"] or hard == 0


@pytest.mark.parametrize(("id", "claim"), [("Z01", "files"), ("A99", "file"), ("A99", "quotas.swap"), ("A99", "")])
def test_a_probe_that_would_never_be_tried(id: str, claim: str) -> None:
    """An unknown group or claim is an error where the probe is written."""
    with pytest.raises(ValueError, match="never be tried"):
        probe(id, "a title", claim=claim)


def test_the_list_is_sorted_and_explained() -> None:
    """Every probe has an id of its own, a title, and a docstring that says what it asserts."""
    probes = all_probes()
    ids = [one.id for one in probes]
    assert ids == sorted(set(ids))
    assert [one.id for one in probes if not (one.attempt.__doc__ or "").strip().endswith((".", ".)"))] == []
    assert [one.id for one in probes if one.title.endswith(".") or not one.title[0].isupper()] == []
    with pytest.raises(ValueError, match="two probes"):
        probe(ids[0], "again", claim="files")
