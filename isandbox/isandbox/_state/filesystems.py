"""Which file systems a state directory may be on. Pure but for looking up the one that a descriptor is on.

By the names in mountinfo, which tell more than the magic number of statfs(2) does: sshfs and a local fuse-overlayfs have one number.
"""

from __future__ import annotations

import os
import re

from isandbox._state.owner import read_text

# Another machine may have the same files open, and neither locks nor sockets work between the two.
_NETWORK = frozenset({
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs"),
    *("panfs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"),
})  # fmt: skip
# Not for files of ours.
_PSEUDO = frozenset({
    *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl"),
    *("hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs"),
})  # fmt: skip
# A FUSE server may be anything, but these keep their files on this machine.
_LOCAL_FUSE = frozenset({"fuseblk", "fuse.fuse-overlayfs"})
_MOST = 16 << 20


def unsuitable(kind: str) -> str:
    """Why no state can be kept on a file system of this kind, in words that follow "it is on"; empty when it can."""
    if kind in _NETWORK:
        return f"a network or shared file system ({kind}), where other machines could have it too"
    if kind in _PSEUDO:
        return f"a file system of the kernel's own ({kind})"
    if kind == "fuse" or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE):
        return f"a FUSE file system ({kind}), which may be on another machine"
    return ""


def kind_of(fd: int) -> str:
    """The kind of the file system that an open file is on; empty when this system does not tell. Does not raise `OSError`."""
    try:
        fdinfo = read_text(f"/proc/self/fdinfo/{fd}")
        mountinfo = _read_whole("/proc/self/mountinfo")
    except OSError:
        return ""
    return parse_kind(fdinfo, mountinfo)


def parse_kind(fdinfo: str, mountinfo: str) -> str:
    """From ``mnt_id`` of proc_pid_fdinfo(5) and the line of that mount; after " - " stands the kind. Empty when not found."""
    mount = re.search(r"^mnt_id:\s*([0-9]+)$", fdinfo, re.MULTILINE)
    if mount is None:
        return ""
    for line in mountinfo.split("\n"):
        if line.startswith(f"{mount[1]} "):
            return line.partition(" - ")[2].partition(" ")[0]
    return ""


def _read_whole(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        raw = bytearray()
        while len(raw) < _MOST and (data := os.read(fd, 65_536)):
            raw += data
    finally:
        os.close(fd)
    return raw.decode("utf-8", "replace")
