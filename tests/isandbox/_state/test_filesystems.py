"""Which file systems state is kept on: none that another machine may have too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from isandbox._state.filesystems import kind_of, parse_kind, unsuitable


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "ramfs", "fuseblk", "fuse.fuse-overlayfs", ""]
)
def test_local_ones_are_taken(kind: str) -> None:
    """What is on this machine's disks or in its memory, and what this system does not tell."""
    assert unsuitable(kind) == ""


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "fuse.sshfs", "fuse.glusterfs", "fuse"]
)
def test_network_ones_are_refused(kind: str) -> None:
    """Locks and sockets do not reach from one machine to the other; the refusal names the kind."""
    assert kind in unsuitable(kind)
    assert "machine" in unsuitable(kind)


@pytest.mark.parametrize("kind", ["proc", "sysfs", "cgroup2", "devtmpfs"])
def test_the_kernels_own_are_refused(kind: str) -> None:
    """Files there are not ours to make."""
    assert kind in unsuitable(kind)


MOUNTS = """22 28 0:21 / /proc rw,nosuid shared:5 - proc proc rw
28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
228 28 0:50 / /home/a\\040b rw - nfs4 server:/home rw,vers=4.2
"""


@pytest.mark.parametrize(("mount", "kind"), [("28", "ext4"), ("228", "nfs4"), ("2", ""), ("8", ""), ("", "")])
def test_the_mount_of_a_descriptor(mount: str, kind: str) -> None:
    """By the number of its mount, whole; a mount that is not shown here has no kind."""
    assert parse_kind(f"pos:\t0\nflags:\t0100000\nmnt_id:\t{mount}\nino:\t2\n", MOUNTS) == kind


def test_the_machines_own(tmp_path: Path) -> None:
    """A directory of /proc is told from one of ours."""
    kinds = []
    for path in ("/proc/self", str(tmp_path)):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        kinds.append(kind_of(fd))
        os.close(fd)
    assert kinds[0] == "proc"
    assert kinds[1] not in {"", "proc"}
    assert kind_of(-1) == ""
