"""Calls that mount, that change the root, or that open a file without a path."""

from __future__ import annotations

from isandbox.errors import SandboxError
from isandbox.policy import Mount
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.inside import Answers
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# In a child: what works must not change the view of the probe itself.
_MOUNT = """
controls["reading what is mounted"] = opened(mounted + "/file")
target, source = place().encode(), mounted.encode()

def calls():
    REMOUNT, BIND, MOVE = 32, 4096, 8192
    attributes = (ctypes.c_uint64 * 4)(0, 1, 0, 0)  # clear MOUNT_ATTR_RDONLY
    yield "tmpfs", lambda: call(NR["mount"], b"none", target, b"tmpfs", 0, None)
    yield "proc", lambda: call(NR["mount"], b"proc", target, b"proc", 0, None)
    yield "cgroup", lambda: call(NR["mount"], b"none", target, b"cgroup2", 0, None)
    yield "bind", lambda: call(NR["mount"], source, target, None, BIND, None)
    yield "remount", lambda: call(NR["mount"], None, source, None, REMOUNT | BIND, None)
    yield "shared", lambda: call(NR["mount"], None, source, None, 1 << 20, None)
    yield "move", lambda: call(NR["mount"], source, target, None, MOVE, None)
    # MNT_EXPIRE: who may is told EAGAIN, or EBUSY, and everything stays where it is.
    yield "umount", lambda: call(NR["umount2"], source, 4)
    yield "umount of /proc", lambda: call(NR["umount2"], b"/proc", 4)
    yield "mount_setattr", lambda: call(NR["mount_setattr"], -100, source, 0, attributes, 32)
    yield "open_tree", lambda: call(NR["open_tree"], -100, b"/", 1)
    yield "fsopen", lambda: call(NR["fsopen"], b"tmpfs", 0)
    yield "fspick", lambda: call(NR["fspick"], -100, b"/", 0)
    yield "move_mount", lambda: call(NR["move_mount"], -100, source, -100, target, 0)
    yield "fsmount", lambda: call(NR["fsmount"], 0, 0, 0)
    yield "pivot_root", lambda: call(NR["pivot_root"], target, target)

def one(do, flags):
    def inside():
        if flags:
            answer = call(NR["unshare"], flags)
            if answer != "ok":
                return answer
        answer = do()
        call(NR["umount2"], target, 2)  # what could be mounted there is not left
        return answer
    return in_child(inside)

for name, do in calls():
    out[name] = one(do, flags)
out["still read-only"] = opened(mounted + "/file", os.O_WRONLY)
"""
_OWN_NAMESPACES = 0x10000000 | 0x20000 | 0x2000000  # of users, mounts and control groups


@probe("A13", "Nothing can be mounted, unmounted or made writable", claim="files")
async def mount_family(arena: Arena) -> Verdict:
    """Every call of the old and the new interface is refused; afterwards a read-only mount still is."""
    return await _mounts(arena, 0)


@probe("A13-nested", "Nothing can be mounted in a user namespace of its own", claim="namespaces")
async def nested(arena: Arena) -> Verdict:
    """As before, from inside new namespaces of users and mounts, where a process has every privilege: there are none, or the
    calls are refused all the same.
    """
    return await _mounts(arena, _OWN_NAMESPACES)


async def _mounts(arena: Arena, flags: int) -> Verdict:
    place = arena.shared("place")
    box = await arena.create(mounts=[Mount(str(place), "/mnt/place")])
    out, controls = await arena.attack(_MOUNT, box=box, mounted="/mnt/place", flags=flags)
    refused = {"EPERM", "EACCES", "ENOSYS", "EROFS", "ENOSPC"}
    return judge(out, controls, refused=refused, by={"EACCES": "Landlock", "ENOSPC": "no user namespace"})


_HANDLE = """
open("own", "w").close()
controls["opening by name"] = opened("own")
directory = os.open(".", os.O_RDONLY)
root = os.open("/", os.O_RDONLY)
handle, mount = ctypes.create_string_buffer(8 + 128), ctypes.c_int()
for name, path in (("the workspace", b"."), ("the root", b"/"), ("a program", os.path.realpath(sys.executable).encode())):
    struct.pack_into("=Ii", handle, 0, 128, 0)
    made = call(NR["name_to_handle_at"], -100, path, handle, ctypes.cast(ctypes.byref(mount), ctypes.c_void_p).value, 0)
    if made != "ok":  # by hand then: 32 bits of inode and of generation, as most file systems have it
        struct.pack_into("=IiII", handle, 0, 8, 1, os.stat(path).st_ino & 0xFFFFFFFF, 0)
    out[name] = call(NR["open_by_handle_at"], directory, handle, os.O_RDONLY)
for number in (1, 2, 128, 256):  # where file systems keep their root
    for name, fd in (("workspace", directory), ("root", root)):
        struct.pack_into("=IiII", handle, 0, 8, 1, number, 0)
        out["inode %d of the %s" % (number, name)] = call(NR["open_by_handle_at"], fd, handle, os.O_RDONLY)
"""


@probe("A15", "No file is opened by a handle", claim="files")
async def by_handle(arena: Arena) -> Verdict:
    """``open_by_handle_at`` refuses handles that the kernel made, and made-up ones of the roots of file systems."""
    out, controls = await arena.attack(_HANDLE)
    return judge(out, controls, refused={"EPERM", "EACCES", "ENOSYS"})


_CHROOT = """
jail, top = place().encode(), os.stat("/")
controls["a root"] = "ok" if os.path.isdir(jail) else "not made"

def leave(before=None):
    "The classic: a root below the working directory, and up from there."
    def inside():
        if before is not None and before() != "ok":
            return before()
        fd = os.open("/", os.O_RDONLY)
        answer = call(NR["chroot"], jail)
        if answer != "ok":
            return answer
        os.fchdir(fd)
        for _ in range(64):
            os.chdir("..")
        if attempt(os.chroot, ".") == "ok" and os.path.exists(canary):
            return "outside"
        here = os.stat(".")
        return "inside" if (here.st_dev, here.st_ino) == (top.st_dev, top.st_ino) else "another root"
    return in_child(inside)

out["chroot and up"] = leave()
out["in a user namespace"] = leave(lambda: call(NR["unshare"], 0x10000000))
def enter():
    answer = call(NR["chroot"], path.encode())
    return answer if answer != "ok" else "outside" if os.path.exists(canary) else "inside"

for path in ("/proc/1/root", "/proc/self/root", "/"):
    out["chroot " + path] = in_child(enter)
out["pivot_root"] = in_child(lambda: call(NR["pivot_root"], jail, jail))
out["dots"] = "outside" if os.path.exists("/" + "../" * 64 + canary) else "inside"
"""


@probe("A19", "A changed root leads nowhere", claim="files")
async def change_root(arena: Arena) -> Verdict:
    """``chroot`` and ``pivot_root`` are refused; or what is reached by them and ``..`` is the sandbox's own root."""
    path, _ = arena.plant("canary")
    out, controls = await arena.attack(_CHROOT, canary=str(path))
    refused = {"EPERM", "EACCES", "ENOSYS", "ENOSPC", "inside"}
    return judge(out, controls, refused=refused, by={"inside": "mount view", "ENOSPC": "no user namespace"})


_CWD = """
controls["a root"] = "ok" if os.path.isdir("/tmp") else "no /tmp"
try:
    here = os.getcwd()
    out["cwd"] = "unreachable" if here.startswith("(") else "inside"
except OSError as error:
    out["cwd"] = "broken out: " + word(error.errno)
out["up"] = "outside" if os.path.exists("../" * 40 + canary.lstrip("/")) else "inside"
"""
_WAYS = (
    "/proc/self/fd/3",
    "/proc/self/fd/7",
    "/proc/1/cwd",
    "/proc/1/root",
    "/proc/self/cwd/..",
    "/dev/fd/4",
    "magic",
    "gone",
)


@probe("A24", "No command starts in a directory outside", claim="files")
async def working_directory(arena: Arena) -> Verdict:
    """A working directory by a descriptor of who starts it, by the first process, by a link to one, or that is gone, is
    refused; or what starts there is inside.
    """
    path, _ = arena.plant("canary")
    made, _ = await arena.attack('os.symlink("/proc/1/cwd", "magic"); out["cwd"] = os.getcwd()\ncontrols["made"] = "ok"')
    out: Answers = {}
    controls: Answers = {}
    for way in ("", *_WAYS):
        cwd = way if way.startswith("/") else f"{made['cwd']}/{way}".rstrip("/")
        try:
            answers, held = await arena.attack(_CWD, canary=str(path), options={"cwd": cwd})
        except (OSError, SandboxError) as error:
            arena.saw(error)
            answers, held = {"start": "refused"}, {}
        if way:
            out |= {f"{way} {name}": value for name, value in answers.items()}
        else:
            controls = held
    refused = {"refused", "inside"}
    return judge(out, controls, refused=refused, by={"refused": "resolved beneath the root", "inside": "mount view"})
