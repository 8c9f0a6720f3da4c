"""Mutants of the system call filter: each lets one family through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isandbox_mutants.frame import Mutant, passing, passing_above, passing_everything, passing_other_architectures

from isandbox_backends._shared.helper import machine
from isandbox_backends.seccomp.syscalls import ARCHES

# Together every name of FORBIDDEN and NOT_THERE: a test counts them.
FAMILIES: Mapping[str, Sequence[str]] = {
    "io_uring": ("io_uring_setup", "io_uring_enter", "io_uring_register"),
    "clone3": ("clone3",),
    "the new mount calls": (
        "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "statmount", "listmount",
    ),
    "memfd_secret": ("memfd_secret",),
    "openat2": ("openat2",),
    "lsm_set_self_attr": ("lsm_set_self_attr",),
    "unshare": ("unshare",),
    "setns": ("setns",),
    "mount": ("mount", "umount2", "pivot_root"),
    "chroot": ("chroot",),
    "ptrace": ("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"),
    "keys": ("keyctl", "add_key", "request_key"),
    "bpf": ("bpf",),
    "perf_event_open": ("perf_event_open",),
    "userfaultfd": ("userfaultfd",),
    "file handles": ("open_by_handle_at", "name_to_handle_at"),
    "kexec, reboot and modules": (
        "kexec_load", "kexec_file_load", "reboot", "init_module", "finit_module", "delete_module", "create_module",
        "get_kernel_syms", "query_module",
    ),
    "swap, accounting and quota": ("swapon", "swapoff", "acct", "quotactl", "quotactl_fd"),
    "what old kernels had": ("nfsservctl", "lookup_dcookie", "uselib", "ustat", "sysfs", "_sysctl"),
    "ports and segments": ("iopl", "ioperm", "modify_ldt"),
    "the kernel's log": ("syslog",),
    "fanotify": ("fanotify_init",),
    "terminals": ("vhangup",),
    "host names": ("sethostname", "setdomainname"),
    "clocks": ("settimeofday", "clock_settime", "adjtimex", "clock_adjtime"),
    "memory policy": (
        "mbind", "set_mempolicy", "get_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages",
    ),
    "vmsplice": ("vmsplice",),
    "page cache and pages of others": ("cachestat", "remap_file_pages", "process_mrelease"),
}  # fmt: skip

_SETID = ("chmod", "fchmod", "fchmodat", "fchmodat2", "open", "openat", "creat", "mknod", "mknodat")
_OF_THE_FIRST = ("setpriority", "ioprio_set", "sched_setparam", "sched_setscheduler", "sched_setattr", "sched_setaffinity")
# Every name of CHECKED.
CHECKED: Mapping[str, Sequence[str]] = {
    "clone with any flags": ("clone",),
    "any personality": ("personality",),
    "any socket": ("socket",),
    "pairs of any family": ("socketpair",),
    "any ioctl": ("ioctl",),
    "leases": ("fcntl",),
    "limits of other processes": ("prlimit64",),
    "priorities of the first process": _OF_THE_FIRST,
    "set-user-id modes": _SETID,
}


def _family_of_sockets(name: str, family: int, *more: tuple[int, str, int]) -> Mutant:
    return Mutant(f"filter: {name}", (passing("socket", when=[(0, "==", family), *more]),))


FILTER = (
    Mutant("no filter", (passing_everything(),)),
    Mutant("filter: other architectures pass", (passing_other_architectures(),)),
    Mutant("filter: numbers past the newest pass", (passing_above(ARCHES[machine()].newest),)),
    *(Mutant(f"filter: {name}", (passing(*calls),)) for name, calls in FAMILIES.items()),
    *(Mutant(f"filter: {name}", (passing(*calls),)) for name, calls in CHECKED.items()),
    _family_of_sockets("AF_ALG", 38),
    _family_of_sockets("AF_VSOCK", 40),
    _family_of_sockets("AF_PACKET", 17),
    _family_of_sockets("netlink for anything", 16),
    _family_of_sockets("any protocol of IPv4", 2),
    Mutant("filter: TIOCSTI", (passing("ioctl", when=[(1, "==", 0x5412)]),)),
    Mutant("filter: TIOCLINUX", (passing("ioctl", when=[(1, "==", 0x541C)]),)),
    Mutant("filter: TIOCSETD", (passing("ioctl", when=[(1, "==", 0x5423)]),)),
    Mutant("filter: TIOCCONS", (passing("ioctl", when=[(1, "==", 0x541D)]),)),
    Mutant("filter: a new user namespace by clone", (passing("clone", when=[(0, "&", 0x10000000)]),)),
)
