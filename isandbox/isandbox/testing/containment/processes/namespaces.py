"""Namespaces: none of others can be entered, none can be made."""

from __future__ import annotations

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import REFUSED, judge
from isandbox.testing.containment.processes.attacks import BY_PROCESS, FILTERED, TOLD_APART, host_victim, judge_by_process
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_ENTER = (
    TOLD_APART
    + r"""
NAMES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
NS_GET_USERNS, NS_GET_PARENT = 0xB701, 0xB702
mine = {name: os.stat("/proc/self/ns/" + name).st_ino for name in NAMES}
filtered = signalled(in_child(lambda: call(NR["setns"], -1, 0))) in ("EPERM", "ENOSYS", "filter SIGSYS")

def enter(descriptor):
    answer = signalled(in_child(lambda: call(NR["setns"], descriptor, 0)))
    return "filter " + answer if filtered and answer in ("EPERM", "ENOSYS") else answer

def tried(path, name):
    "What entering the namespace of that file answers; 'same' when that is where we are."
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        return word(error.errno)
    try:
        return "same" if os.fstat(descriptor).st_ino == mine.get(name) else enter(descriptor)
    finally:
        os.close(descriptor)

for name in NAMES:
    controls["its own " + name] = opened("/proc/self/ns/" + name)
    out["enter its own %s again" % name] = "same"
    for pid in sorted({1, os.getppid(), host} - {0, os.getpid()}):
        out["%s of %d" % (name, pid)] = tried("/proc/%d/ns/%s" % (pid, name), name)
for place in ("/run/netns", "/var/run/netns"):
    out[place] = opened(place)
    for entry in os.listdir(place)[:16] if out[place] == "ok" else ():
        out["%s of %s" % (place, entry)] = tried(place + "/" + entry, "net")
    if out[place] == "ok":
        out[place] = "same"

def owner(name, request):
    "The user namespace that owns ours, or the one above it."
    descriptor = os.open("/proc/self/ns/" + name, os.O_RDONLY)
    ctypes.set_errno(0)
    found = libc.syscall(ctypes.c_long(NR["ioctl"]), ctypes.c_long(descriptor), ctypes.c_long(request), ctypes.c_long(0))
    os.close(descriptor)
    if found < 0:
        answer = word(ctypes.get_errno())
        return "none" if answer in ("EINVAL", "ENOTTY") else answer
    same = os.fstat(found).st_ino == mine["user"] and request == NS_GET_USERNS
    answer = "same" if same else enter(found)
    os.close(found)
    return answer

for name in NAMES:
    out["owner of " + name] = owner(name, NS_GET_USERNS)
for name in ("user", "pid"):
    out["parent of " + name] = owner(name, NS_GET_PARENT)
"""
)


@probe("B07", "No namespace of others can be entered", claim="namespaces")
async def enter_namespaces(arena: Arena) -> Verdict:
    """Namespace files of the keepers and of a host process, those that are mounted, and the owners and parents of its own: none
    can be opened and entered but the namespaces that the command is in.
    """
    target = await host_victim(arena)
    out, controls = await arena.attack(_ENTER, host=target.pid)
    by = {"EPERM": "out of the namespace's reach"}
    return judge_by_process({name: said for name, said in out.items() if said not in ("same", "none")}, controls, by=by)


_MAKE = (
    TOLD_APART
    + r"""
FLAGS = {"time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
         "pid": 0x20000000, "net": 0x40000000}
HIGH = 1 << 32

def cloned(number, *arguments):
    child = libc.syscall(ctypes.c_long(number), *arguments)
    if child == 0:
        os._exit(0)
    if child < 0:
        return word(ctypes.get_errno())
    os.waitpid(child, 0)
    return "ok"

def clone(flags):
    return cloned(NR["clone"], ctypes.c_long(flags | signal.SIGCHLD), None, None, None, None)

def clone3(flags):
    arguments = struct.pack("<QQQQQQQQ", flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    return cloned(NR["clone3"], arguments, ctypes.c_long(len(arguments)))

# The kernel lets anybody unshare nothing.
filtered = signalled(in_child(lambda: call(NR["unshare"], 0))) in ("EPERM", "ENOSYS", "filter SIGSYS")
no_clone3 = signalled(in_child(lambda: clone3(0))) in ("EPERM", "ENOSYS", "filter SIGSYS")

def made(attack, by_filter):
    answer = signalled(in_child(attack))
    return "filter " + answer if by_filter and answer in ("EPERM", "ENOSYS") else answer

controls["a plain process"] = signalled(in_child(lambda: clone(0)))
for name, flag in FLAGS.items():
    out["unshare " + name] = made(lambda: call(NR["unshare"], flag), filtered)
    out["clone3 " + name] = made(lambda: clone3(flag), no_clone3)
    if name != "time":  # the bits of the signal for clone
        out["clone " + name] = made(lambda: clone(flag), filtered)
        out["clone %s, high bits too" % name] = made(lambda: clone(flag | HIGH), filtered)
out["unshare user and net"] = made(lambda: call(NR["unshare"], FLAGS["user"] | FLAGS["net"]), filtered)
"""
)


@probe("B08", "No namespace can be made", claim="namespaces")
async def make_namespaces(arena: Arena) -> Verdict:
    """unshare, clone and clone3 refuse every kind of namespace, also with bits set that the kernel does not read, while a plain
    process can be made. A new user namespace would open what only root reaches.
    """
    out, controls = await arena.attack(_MAKE)
    by = {**BY_PROCESS, "EPERM": "no privilege", "ENOSPC": "no more namespaces allowed"}
    return judge(out, controls, refused=REFUSED | FILTERED | {"ENOSPC", "EUSERS"}, by=by)
