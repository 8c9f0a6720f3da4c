"""The kernel's calls: those that nobody inside needs, by every entry there is."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Arguments that do nothing even where the call is allowed: null, but -1 where null means "all" or "off", and paths that are not
# there. "PID" is the caller itself.
DANGEROUS: dict[str, list[Any]] = {
    "mount": ["none", "/nowhere", "tmpfs", 0, 0],
    "umount2": ["/nowhere", 0],
    "pivot_root": ["/nowhere", "/nowhere"],
    "chroot": ["/nowhere"],
    "open_tree": [-100, "/nowhere", 1],
    "open_tree_attr": [-100, "/nowhere", 1, 0, 0],
    "move_mount": [-1, "nowhere", -1, "nowhere", 0],
    "fsopen": ["nosuchfs", 0],
    "fsconfig": [-1, 0, 0, 0, 0],
    "fsmount": [-1, 0, 0],
    "fspick": [-100, "/nowhere", 0],
    "mount_setattr": [-100, "/nowhere", 0, 0, 0],
    "setns": [-1, 0],
    "ptrace": [0x4206, -1, 0, 0],
    "process_vm_readv": ["PID", 0, 0, 0, 0, 0],
    "process_vm_writev": ["PID", 0, 0, 0, 0, 0],
    "kcmp": ["PID", "PID", 0, 0, 0],
    "pidfd_getfd": [-1, 0, 0],
    "process_madvise": [-1, 0, 0, 0, 0],
    "add_key": ["user", "isandbox-probe", 0, -1, -1],
    "request_key": ["user", "isandbox-nothing", 0, 0],
    "keyctl": [0, -3, 0, 0, 0],
    "bpf": [0, 0, 0],
    "perf_event_open": [0, 0, -1, -1, 0],
    "userfaultfd": [-1],
    "io_uring_setup": [0, 0],
    "io_uring_enter": [-1, 0, 0, 0, 0, 0],
    "io_uring_register": [-1, 0, 0, 0],
    "open_by_handle_at": [-1, 0, 0],
    "name_to_handle_at": [-100, "/nowhere", 0, 0, 0],
    "kexec_load": [-1, -1, 0, -1],
    "kexec_file_load": [-1, -1, 0, 0, -1],
    "reboot": [0, 0, 0, 0],
    "init_module": [0, 0, 0],
    "finit_module": [-1, 0, 0],
    "delete_module": ["isandbox-nothing", 0],
    "create_module": [0, 0],
    "get_kernel_syms": [0],
    "query_module": [0, 0, 0, 0, 0],
    "swapon": ["/nowhere", 0],
    "swapoff": ["/nowhere"],
    "acct": ["/nowhere"],
    "quotactl": [-1, 0, 0, 0],
    "quotactl_fd": [-1, 0, 0, 0],
    "nfsservctl": [0, 0, 0],
    "lookup_dcookie": [0, 0, 0],
    "syslog": [9, 0, 0],
    "iopl": [0],
    "ioperm": [0, 0, 0],
    "modify_ldt": [0, 0, 0],
    "personality": [0x0040000],
    "fanotify_init": [0x200, 0],  # FAN_REPORT_FID: what anybody may have
    "vhangup": [],
    "sethostname": ["x", -1],
    "setdomainname": ["x", -1],
    "settimeofday": [-1, -1],
    "clock_settime": [-1, 0],
    "adjtimex": [0],
    "clock_adjtime": [-1, 0],
    "mbind": [0, 0, 0, 0, 0, 0],
    "set_mempolicy": [-1, 0, 0],
    "set_mempolicy_home_node": [0, 0, 0, 1],
    "migrate_pages": [-1, 0, 0, 0],
    "move_pages": [0, 0, 0, 0, 0, 0],
    "memfd_secret": [-1],
    "lsm_set_self_attr": [0, 0, 0, 0],
    "vmsplice": [-1, 0, 0, 0],
    "cachestat": [-1, 0, 0, 0],
    "process_mrelease": [-1, 0],
    "remap_file_pages": [0, 0, 0, 0, 0],
    "uselib": ["/nowhere"],
    "ustat": [0, 0],
    "sysfs": [3],
    "_sysctl": [0],
}

_CALL = r"""
def argument(value):
    return os.getpid() if value == "PID" else value.encode() if isinstance(value, str) else value

def issue(name, arguments):
    if name == "vhangup":
        os.setsid()  # of no terminal
    return call(NR[name], *map(argument, arguments))

controls["a call that is harmless"] = attempt(os.sched_yield)
for name, arguments in calls.items():
    if name in NR:
        answer = in_child(lambda: issue(name, arguments))
        out[name] = "ENOSYS" if answer == "signal %d" % signal.SIGSYS else answer
"""


@probe("B14", "Calls that reach deep into the kernel are refused", claim="kernel")
async def dangerous_calls(arena: Arena) -> Verdict:
    """Each of some eighty calls that administer a machine, look into other processes or have a history of holes answers EPERM
    or ENOSYS, or kills its caller with SIGSYS, without looking at its arguments.
    """
    out, controls = await arena.attack(_CALL, calls=DANGEROUS)
    by = {"ENOSYS": "system call filter", "EPERM": "system call filter or no privilege"}
    return judge(out, controls, refused={"EPERM", "ENOSYS"}, by=by)


_RING = r"""
parameters = ctypes.create_string_buffer(120)  # struct io_uring_params
controls["a call that is harmless"] = attempt(os.sched_yield)
for entries in (1, 8):
    out["a ring of %d" % entries] = call(NR["io_uring_setup"], entries, parameters)
out["on no ring"] = call(NR["io_uring_enter"], -1, 0, 0, 0, None, 0)
"""


@probe("B15", "There is no io_uring", claim="kernel")
async def io_uring(arena: Arena) -> Verdict:
    """No ring can be set up: what is done through one passes by every filter of system calls."""
    out, controls = await arena.attack(_RING)
    by = {"ENOSYS": "system call filter", "EPERM": "system call filter or kernel.io_uring_disabled"}
    return judge(out, controls, refused={"EPERM", "ENOSYS"}, by=by)


# Numbers of the i386 table (arch/x86/entry/syscalls/syscall_32.tbl), by the way in that every 64-bit program has.
_ENTRY_32 = r"""
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
# push rbx; mov eax, edi; mov ebx, esi; xor ecx, ecx; xor edx, edx; int 0x80; pop rbx; ret
page.write(bytes.fromhex("5389f889f331c931d2cd805bc3"))
start = ctypes.addressof(ctypes.c_char.from_buffer(page))
enter = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(start)

def entry(number, first):
    result = in_child(lambda: enter(number, first))
    if result.startswith("signal"):
        return {"signal 31": "SIGSYS", "signal 11": "no such entry"}.get(result, result)
    return "ok" if int(result) >= 0 else word(-int(result))

GETPID = 20
CALLS = {"mount": (21, -1), "ptrace": (26, -1), "socketcall": (102, 99), "unshare": (310, 0x10000000), "keyctl": (288, 0),
         "bpf": (357, 0), "io_uring_setup": (425, 0)}
controls["a call by the other way in"] = attempt(os.getpid)
out["getpid"] = entry(GETPID, 0)
for name, (number, first) in CALLS.items():
    out[name] = entry(number, first)
"""


@probe("B11", "The 32-bit entry is closed", claim="kernel")
async def entry_of_32_bits(arena: Arena) -> Verdict:
    """A call by int 0x80, where the same numbers mean other calls, ends the process or is unknown; where the entry is open, the
    dangerous calls behind it are refused too.
    """
    if os.uname().machine != "x86_64":
        return Verdict("VACUOUS", detail="a process of this machine has one way into the kernel")
    out, controls = await arena.attack(_ENTRY_32)
    first = out.pop("getpid")
    if first == "no such entry":
        return Verdict("VACUOUS", detail="this kernel has no 32-bit entry")
    if first in ("SIGSYS", "ENOSYS"):
        out["getpid"] = first
    by = {"SIGSYS": "system call filter", "ENOSYS": "system call filter", "EPERM": "system call filter or no privilege"}
    return judge(out, controls, refused={"SIGSYS", "ENOSYS", "EPERM"}, by=by)


_X32 = 0x40000000
_OTHER_NUMBERS = r"""
for name, arguments in calls.items():
    if name in NR:
        out[name] = in_child(lambda: call(X32 | NR[name], *[value if isinstance(value, int) else None for value in arguments]))
        out[name] = "ENOSYS" if out[name] == "signal 31" else out[name]
controls["the same call without the bit"] = attempt(os.sched_yield)
"""


@probe("B12", "Numbers of the x32 ABI are unknown", claim="kernel")
async def x32_numbers(arena: Arena) -> Verdict:
    """A forbidden call is not let through when the bit of x86-64's second ABI is set in its number.

    ``VACUOUS`` where the host's own kernel does not have that ABI: every such number is unknown there.
    """
    if os.uname().machine != "x86_64" or not _host_has_x32():
        return Verdict(
            "VACUOUS", detail="this kernel has no x32 ABI, so nothing would show a filter that lets its numbers through"
        )
    out, controls = await arena.attack(_OTHER_NUMBERS, calls=DANGEROUS, X32=_X32)
    return judge(out, controls, refused={"ENOSYS", "EPERM"}, by={"ENOSYS": "system call filter"})


def _host_has_x32() -> bool:
    """Ask for the process's own number by it."""
    return int(ctypes.CDLL(None).syscall(ctypes.c_long(_X32 | _GETPID))) == os.getpid()


_GETPID = 39
