"""Device nodes: those that are there, and those that could be made."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from isandbox.policy import Mount
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.filesystem.hostfiles import number
from isandbox.testing.containment.judge import REFUSED, judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Named ones only, and none of those that do something when they are opened (watchdogs, tapes, the image of a sleeping system).
_WANTED = (
    "mem", "kmem", "port", "kmsg", "kvm", "fuse", "vsock", "net/tun", "loop-control", "loop0", "mapper/control", "uinput", "sda",
    "vda", "nvme0", "nvme0n1", "xvda", "hwrng", "rtc0", "ttyS0", "tty0", "tty1", "console", "userfaultfd", "vhost-net",
    "vhost-vsock", "autofs", "cpu_dma_latency", "nvidia0", "nvidiactl", "dri/renderD128", "hpet", "nvram", "btrfs-control",
     "cuse", "ppp", "rfkill", "snd/timer", "udmabuf", "vfio/vfio", "vga_arbiter", "zram0", "pmem0",
)  # fmt: skip
# By number: null, zero, full, random, urandom, tty, ptmx.
_HARMLESS = ((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2))

_OPEN = """
def harmless(status):
    major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
    return stat.S_ISCHR(status.st_mode) and ([major, minor] in allowed or 136 <= major <= 143)

controls["null"] = opened("/dev/null", os.O_RDWR)
for name in wanted:
    path = "/dev/" + name
    try:
        status = os.stat(path)
    except OSError as error:
        out[name] = word(error.errno)
        continue
    if not stat.S_ISCHR(status.st_mode) and not stat.S_ISBLK(status.st_mode):
        out[name] = "no device"
    elif not harmless(status):
        answers = {opened(path, os.O_RDONLY)}
        if stat.S_ISCHR(status.st_mode):  # a disk that was open for writing is looked at anew by the host
            answers.add(opened(path, os.O_WRONLY))
        out[name] = "ok" if "ok" in answers else answers.pop()
for path, status in below("/", most=20000):
    if stat.S_ISBLK(status.st_mode) or (stat.S_ISCHR(status.st_mode) and not harmless(status)):
        if path[5:] not in wanted:
            out[path] = "ok" if os.access(path, os.R_OK) or os.access(path, os.W_OK) else "EACCES"
    elif stat.S_ISCHR(status.st_mode) and not path.startswith("/dev/") and opened(path) == "ok":
        # TCGETS asks only. A device that is none of its business says ENOTTY: the request came to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        out["request to " + path] = call(NR["ioctl"], descriptor, 0x5401, ctypes.create_string_buffer(64))
        os.close(descriptor)
# To what they are: where this works on the host's own, nothing has happened to it.
null = os.stat("/dev/null")
out["chmod null"] = attempt(os.chmod, "/dev/null", stat.S_IMODE(null.st_mode))
out["chown null"] = attempt(os.chown, "/dev/null", null.st_uid, null.st_gid)
if out["chown null"] == "EINVAL":  # an owner who has no id in here
    out["chown null"] = "EPERM"
out["unlink null"] = "ok" if os.access("/dev", os.W_OK) else "EACCES"
if "ok" in (out["chmod null"], out["chown null"], out["unlink null"]):
    status = os.lstat("/dev") if out["unlink null"] == "ok" else os.lstat("/dev/null")
    if "%d %d" % (status.st_dev, status.st_ino) not in hosts:
        for name in ("chmod null", "chown null", "unlink null"):
            out[name] = "its own"
"""


@probe("A14-open", "No device but the harmless ones can be opened", claim="devices")
async def open_devices(arena: Arena) -> Verdict:
    """Memory, disks, virtual machines, terminals of the host and their like are not there or do not open; no other node is
    found, and the harmless ones cannot be changed for others, nor controlled under another name.
    """
    present = [name for name in _WANTED if _is_device(f"/dev/{name}")]
    if not present:
        return Verdict("VACUOUS", detail="this host has none of the devices that are tried")
    hosts = [number("/dev"), number("/dev/null")]
    out, controls = await arena.attack(_OPEN, wanted=list(_WANTED), allowed=_HARMLESS, hosts=hosts)
    allowed = REFUSED | {"no device", "its own"}
    by = {"no device": "an own /dev", "its own": "an own /dev", "ENOENT": "an own /dev"}
    return judge(out, controls, refused=allowed, by=by)


def _is_device(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


# A node that could be made is opened, if it is a harmless one, to see whether it is one; and it is removed.
_MAKE = """
controls["a FIFO"] = attempt(os.mknod, os.path.join(place(), "fifo"), stat.S_IFIFO | 0o600)
nodes = {"zero": (stat.S_IFCHR, 1, 5), "memory": (stat.S_IFCHR, 1, 1), "kernel log": (stat.S_IFCHR, 1, 11), "disk": (stat.S_IFBLK, 8, 0),
         "loop": (stat.S_IFBLK, 7, 0), "virtual disk": (stat.S_IFBLK, 254, 0), "fuse": (stat.S_IFCHR, 10, 229)}
for top in (os.getcwd(), "/tmp", "/dev/shm", "/dev", os.path.expanduser("~")):
    for name, (kind, major, minor) in nodes.items():
        path = os.path.join(top, "node-by-probe-%d" % os.getpid())
        answer = attempt(os.mknod, path, kind | 0o666, os.makedev(major, minor))
        if answer == "ok":
            if name == "zero":
                answer = "useless" if opened(path) in ("EACCES", "EPERM") else "ok"
            os.unlink(path)
        out["%s in %s" % (name, top)] = answer

new = os.path.join(place(), "node")

def made_in_own_namespace():
    answer = call(NR["unshare"], 0x10000000)
    return answer if answer != "ok" else attempt(os.mknod, new, stat.S_IFCHR | 0o666, os.makedev(1, 5))

out["in a user namespace"] = in_child(made_in_own_namespace)
"""


@probe("A14-make", "No device node can be made", claim="devices")
async def make_devices(arena: Arena) -> Verdict:
    """``mknod`` of any character or block device is refused everywhere, also in a user namespace of its own."""
    out, controls = await arena.attack(_MAKE)
    by = {
        "useless": "mount without devices",
        "EACCES": "Landlock, or no right to write",
        "EPERM": "no CAP_MKNOD",
        "ENOSPC": "no user namespace",
    }
    return judge(out, controls, refused=REFUSED | {"useless", "ENOSPC"}, by=by)


_MOUNTED = """
controls["a file beside it"] = opened("/mnt/nodes/file")
for name in nodes:
    for flags in (os.O_RDONLY, os.O_WRONLY):
        out["open %s, %d" % (name, flags)] = opened("/mnt/nodes/" + name, flags)
"""


@probe("A14-mounted", "A device node in a mounted directory is no device", claim="devices")
async def mounted_devices(arena: Arena) -> Verdict:
    """A node that lies in a directory of the host does not open where that is mounted. Anybody can make the one with number 0:0,
    which no driver has: the kernel looks for one (ENXIO) only where a mount allows devices. Root's is also the node of /dev/zero.
    """
    place = arena.directory()
    place.chmod(0o777)
    (place / "file").write_text("x")
    nodes = {"none": os.makedev(0, 0)} | ({"zero": os.makedev(1, 5)} if os.geteuid() == 0 else {})
    for name, device in nodes.items():
        os.mknod(place / name, stat.S_IFCHR | 0o666, device)
        (place / name).chmod(0o666)
    if (said := _errno_of_opening(place / "none")) != errno.ENXIO:
        return Verdict("VACUOUS", detail=f"on the host's own temporary directory such a node says {said}")
    box = await arena.create(mounts=[Mount(str(place), "/mnt/nodes")])
    out, controls = await arena.attack(_MOUNTED, box=box, nodes=list(nodes))
    return judge(out, controls, by={"EACCES": "mount without devices", "EROFS": "read-only mount"})


def _errno_of_opening(path: Path) -> int | None:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno
    return None
