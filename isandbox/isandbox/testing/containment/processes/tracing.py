"""Processes as something to look into: memory, descriptors, namespaces, by ptrace, /proc and pidfd."""

from __future__ import annotations

from dataclasses import replace

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.processes.attacks import TOLD_APART, host_victim, judge_by_process
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_LOOK = (
    TOLD_APART
    + r"""
PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SEIZE = 16, 17, 0x4206
own = ctypes.create_string_buffer(b"readable")
found = ctypes.create_string_buffer(64)

def vector(address, size):
    return struct.pack("<QQ", address, size)

def memory(pid, at, mode):
    def look():
        file = os.open("/proc/%d/mem" % pid, mode)
        try:
            return os.pread(file, 48, at)
        finally:
            os.close(file)
    return look

def read_memory(pid, at):
    try:
        piece = memory(pid, at, os.O_RDONLY)()
    except OSError as error:
        return word(error.errno)
    sys.stdout.write(piece.decode("latin-1"))
    return "ok"

def traced(request):
    "In a child, whose end lets go again; what it has stopped is sent on its way."
    def attack(pid):
        answer = call(NR["ptrace"], request, pid, 0, 0)
        if answer == "ok" and request == PTRACE_ATTACH:
            os.waitpid(pid, 0x40000000)  # __WALL
            call(NR["ptrace"], PTRACE_DETACH, pid, 0, 0)
            os.kill(pid, signal.SIGCONT)
        return answer
    return lambda pid: signalled(in_child(lambda: attack(pid)))

def copied(name):
    def attack(pid):
        answer = call(NR[name], pid, vector(ctypes.addressof(found), 48), 1, vector(address, 48), 1, 0)
        if answer == "ok" and name == "process_vm_readv":
            sys.stdout.write(found.raw.decode("latin-1"))
        return answer
    return lambda pid: signalled(in_child(lambda: attack(pid)))

controls["its own memory"] = "ok" if memory(os.getpid(), ctypes.addressof(own), os.O_RDONLY)()[:8] == b"readable" else "not read"
for pid in pids:
    if address:  # whoever is attached to stands still for a moment, and nobody but the victim may
        out["%d: ptrace attach" % pid] = on(pid, traced(PTRACE_ATTACH))
    out["%d: ptrace seize" % pid] = on(pid, traced(PTRACE_SEIZE))
    out["%d: process_vm_readv" % pid] = on(pid, copied("process_vm_readv"))
    out["%d: process_vm_writev" % pid] = on(pid, copied("process_vm_writev"))
    out["%d: kcmp" % pid] = on(pid, lambda pid: signalled(in_child(lambda: call(NR["kcmp"], pid, os.getpid(), 2, 0, 0))))
    out["%d: read mem" % pid] = on(pid, lambda pid: read_memory(pid, address))
    for name, flags in (("mem", os.O_RDWR), ("maps", os.O_RDONLY), ("environ", os.O_RDONLY), ("cwd", os.O_RDONLY),
                        ("root", os.O_RDONLY), ("fd/0", os.O_RDONLY)):
        out["%d: open %s" % (pid, name)] = opened("/proc/%d/%s" % (pid, name), flags)
"""
)

_KEEPERS = """
pids = sorted({1, os.getppid()} - {0, os.getpid()})
address = 0  # nothing is there to be read or written: EFAULT, but only for who may
"""


@probe("B01", "Processes of the host cannot be traced, read or written", claim="processes")
async def trace_the_host(arena: Arena) -> Verdict:
    """ptrace, process_vm_readv and writev, kcmp and /proc/PID of a process of the host with the same ids are refused, and its
    memory is what it was.
    """
    target = await host_victim(arena)
    out, controls = await arena.attack(_LOOK, pids=[target.pid], address=target.address)
    verdict = judge_by_process(out, controls)
    harm = target.harm()
    return verdict if harm.none else replace(verdict, outcome="LEAK", detail=f"the victim: {harm}; {verdict.detail}")


@probe("B01-keeper", "What keeps a command inside cannot be traced, read or written", claim="processes")
async def trace_the_keeper(arena: Arena) -> Verdict:
    """The same attacks on the sandbox's first process and on the command's parent, which are not the command's own."""
    out, controls = await arena.attack(_KEEPERS + _LOOK)
    if not out:
        return Verdict("VACUOUS", detail="the command is the first process and has no parent inside")
    return judge_by_process(out, controls)


_PIDFD = (
    TOLD_APART
    + r"""
def handle(pid):
    result = libc.syscall(ctypes.c_long(NR["pidfd_open"]), ctypes.c_long(pid), ctypes.c_long(0))
    return result, "ok" if result >= 0 else word(ctypes.get_errno())

def descriptors(target, label, nothing=()):
    "Descriptors of another process, and its namespaces, by a pidfd. `nothing`: what is said when it is none."
    for number in range(21):
        answer = signalled(in_child(lambda: call(NR["pidfd_getfd"], target, number, 0)))
        answer = "filter " + answer if filtered and answer in ("EPERM", "ENOSYS") else answer
        # That a number names no descriptor (EBADF) is said only to who may take the others.
        out["%s: descriptor %d" % (label, number)] = "none" if answer in nothing else answer
    for name, request in GET.items():
        result = libc.syscall(ctypes.c_long(NR["ioctl"]), ctypes.c_long(target), ctypes.c_long(request), ctypes.c_long(0))
        if result < 0:
            answer = word(ctypes.get_errno())
        else:
            answer = "same" if os.fstat(result).st_ino == os.stat("/proc/self/ns/" + name).st_ino else "ok"
            os.close(result)
        out["%s: %s namespace" % (label, name)] = "none" if answer in ("ENOTTY", "EINVAL", "EOPNOTSUPP") else answer

GET = {name: 0xFF00 | number for number, name in ((1, "cgroup"), (2, "ipc"), (3, "mnt"), (4, "net"), (5, "pid"), (9, "user"), (10, "uts"))}
filtered = signalled(in_child(lambda: call(NR["pidfd_getfd"], -1, 0, 0))) in ("EPERM", "ENOSYS", "filter SIGSYS")
mine, controls["its own"] = handle(os.getpid())
controls["a signal to itself"] = call(NR["pidfd_send_signal"], mine, 0, None, 0)
for pid in pids:
    target, answer = handle(pid)
    out["host %d: pidfd_open" % pid] = answer
    if answer == "ok":
        out["host %d: signal" % pid] = call(NR["pidfd_send_signal"], target, 0, None, 0)
        descriptors(target, "host")
for pid in sorted({1, os.getppid()} - {0, os.getpid()}):
    target, answer = handle(pid)
    if answer == "ok":
        descriptors(target, "keeper %d" % pid)
    directory = os.open("/proc/%d" % pid, os.O_RDONLY) if os.path.isdir("/proc/%d" % pid) else -1
    if directory >= 0:
        descriptors(directory, "directory %d" % pid, nothing=("EBADF",))
"""
)


@probe("B02", "A pidfd gives neither descriptors nor namespaces of others", claim="processes")
async def pidfd(arena: Arena) -> Verdict:
    """No pidfd of a host process can be had; those of the command's keepers, and their directories in /proc, give no descriptor
    and no namespace but those that the command is in.
    """
    target = await host_victim(arena)
    out, controls = await arena.attack(_PIDFD, pids=[target.pid])
    tried = {name: answer for name, answer in out.items() if answer not in ("none", "same")}
    return judge_by_process(tried, controls)
