"""What a command is inside and outside: ids, capabilities, filters, and whom its files belong to."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from isandbox import Mount, Workspace
from isandbox_backends._shared.plan import Landlock, Record

pytestmark = pytest.mark.native

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has one id to map")

STATUS = """
for line in open("/proc/self/status"):
    name, _, value = line.partition(":")
    if name.startswith("Cap") or name in ("NoNewPrivs", "Seccomp", "Seccomp_filters", "Uid", "Gid", "Groups"):
        out[name] = value.split()
out["umask"] = os.umask(0)
out["dumpable"] = libc.prctl(3, 0, 0, 0, 0)
out["securebits"] = libc.prctl(27, 0, 0, 0, 0)
out["session"] = [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()]
out["namespaces"] = {name: os.readlink("/proc/self/ns/" + name) for name in ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup")}
out["hostname"] = os.uname().nodename
out["signals"] = [int(line.split()[1], 16) for line in open("/proc/self/status") if line.startswith(("SigBlk", "SigIgn"))]
"""


def test_a_command_is_nobody_in_particular(make: Any, probes: Any) -> None:
    """Every capability set is empty, no privilege can be gained, the filter is on, ids are those of the sandbox's user."""
    box = make()
    found = probes.run(box, STATUS)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(found[name][0], 16) == 0, name
    assert (found["NoNewPrivs"], found["Seccomp"], found["Seccomp_filters"]) == (["1"], ["2"], ["1"])
    assert set(found["Uid"]) == set(found["Gid"]) == {"1000"}
    if box.info.layers["split_uid"].startswith("enforced"):
        assert found["Groups"] == []
    else:  # a user who maps one id cannot drop its groups; inside they are nobody's
        assert set(found["Groups"]) <= {"1000", "65534"}
    assert found["securebits"] == 0xC3
    assert (found["umask"], found["session"], found["hostname"]) == (0o22, [True, True], "sandbox")
    assert found["signals"][0] == 0


def test_every_namespace_is_the_sandboxs_own(make: Any, probes: Any) -> None:
    """No namespace is shared with the host or with another sandbox."""
    first, second = (probes.run(make(), STATUS)["namespaces"] for _ in range(2))
    host = {name: os.readlink(f"/proc/self/ns/{name}") for name in first}
    for name in first:
        assert len({first[name], second[name], host[name]}) == 3, name


def test_a_missing_layer_is_seen(make: Any, probes: Any) -> None:
    """What is switched off is told by `info`, and what is on by the process itself."""

    def no_landlock(plan: list[Record]) -> list[Record]:
        return [Landlock(0, 0) if isinstance(record, Landlock) else record for record in plan]

    waived = make(waive={"landlock"})
    assert waived.info.layers["landlock"] == "absent (waived)"
    assert waived.info.waived == {"landlock"}
    assert make(edit=no_landlock).info.layers["landlock"].startswith("absent")
    assert make().info.layers["landlock"].startswith("enforced")


def ids_outside(pid: int) -> tuple[set[int], set[int]]:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {int(n) for n in lines["Uid"].split()}, {int(n) for n in lines["Gid"].split()}


@needs_root
def test_ids_outside_are_nobodys(make: Any) -> None:
    """As root, a sandbox's ids on the host lie in a range above all users, and the helper's differ from its commands'."""
    box = make()
    process = box.start("exec sleep 30")
    helper = box._core.client.pid
    uids, gids = ids_outside(helper)
    assert all(0x7800_0000 <= number < 0x7FFE_0000 for number in uids | gids)
    children = Path(f"/proc/{helper}/task/{helper}/children").read_text().split()
    (keeper,) = children
    (command,) = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    command_uids, command_gids = ids_outside(int(command))
    assert command_uids == {min(uids) + 1000}
    assert command_gids == {min(gids) + 1000}
    assert Path(f"/proc/{command}/uid_map").read_text().split() == ["0", str(min(uids)), "1024"]
    process.kill()


@needs_root
@pytest.mark.parametrize("owner", [(0, 0), (54321, 54322)])
def test_files_belong_to_the_owner_of_the_directory(make: Any, tmp_path: Path, owner: tuple[int, int]) -> None:
    """As root, what is made in a writable directory belongs to its owner, without set-id bits; a stranger's file is safe."""
    os.chown(tmp_path, *owner)
    (tmp_path / "stranger").write_text("canary")
    os.chown(tmp_path / "stranger", 12345, 12345)
    (tmp_path / "stranger").chmod(0o644)
    box = make(workspace=Workspace(str(tmp_path)))
    result = box.exec("umask 0; echo a > made; mkdir dir; ln -s x link; mkfifo fifo; chmod 7777 made; echo b >> stranger")
    assert "stranger" in result.stderr
    for path in tmp_path.iterdir():
        status = path.lstat()
        if path.name != "stranger":
            assert (status.st_uid, status.st_gid) == owner, path
        assert not stat.S_IMODE(status.st_mode) & 0o6000, path
    assert (tmp_path / "stranger").read_text() == "canary"
    assert "stranger" in box.exec("chown 1000 stranger; chmod 777 stranger").stderr


def test_a_mounted_file_keeps_its_owner(make: Any, tmp_path: Path) -> None:
    """Writing to a mounted file or directory changes contents, not the owner, and not by a single set-id bit."""
    place = tmp_path / "rw"
    place.mkdir()
    program = place / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o6755)
    before = program.stat()
    box = make(mounts=[Mount(str(place), "/mnt/rw", "rw")])
    assert box.exec("echo changed > /mnt/rw/tool").ok
    after = program.stat()
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert not stat.S_IMODE(after.st_mode) & 0o4000
    assert program.read_text() == "changed\n"
