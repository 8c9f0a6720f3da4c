"""System call numbers of what the filter names.

Source: Linux 6.18, arch/x86/entry/syscalls/syscall_64.tbl and, for aarch64, scripts/syscall.tbl. A test compares them with
the kernel headers of the machine it runs on. A name that an architecture does not have is not in its table.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Arch:
    name: str
    audit: int
    """AUDIT_ARCH_* of linux/audit.h: what the kernel puts into seccomp_data.arch."""
    numbers: Mapping[str, int]
    newest: int
    """The newest number that was looked at when this list was made; above it everything is ENOSYS."""
    x32: bool
    """Whether a second ABI shares the architecture value, told apart by bit 30 of the number."""


# Since 424 every architecture has the same numbers.
_COMMON = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "openat2": 437, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "set_mempolicy_home_node": 450,
    "fchmodat2": 452, "statmount": 457, "listmount": 458, "lsm_set_self_attr": 460,
}  # fmt: skip

_X86_64 = {
    "open": 2, "ioctl": 16, "socket": 41, "clone": 56, "creat": 85, "chmod": 90, "fchmod": 91,
    "ptrace": 101, "syslog": 103, "mknod": 133, "uselib": 134, "personality": 135, "ustat": 136, "sysfs": 139,
    "vhangup": 153, "modify_ldt": 154, "pivot_root": 155, "_sysctl": 156, "adjtimex": 159, "chroot": 161, "acct": 163,
    "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
    "setdomainname": 171, "iopl": 172, "ioperm": 173, "create_module": 174, "init_module": 175, "delete_module": 176,
    "get_kernel_syms": 177, "query_module": 178, "quotactl": 179, "nfsservctl": 180, "sched_setaffinity": 203,
    "lookup_dcookie": 212, "clock_settime": 227, "mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239,
    "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "migrate_pages": 256, "openat": 257, "mknodat": 259, "fchmodat": 268,
    "unshare": 272, "vmsplice": 278, "move_pages": 279, "perf_event_open": 298, "fanotify_init": 300, "prlimit64": 302,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    **_COMMON,
}  # fmt: skip

_AARCH64 = {
    "lookup_dcookie": 18, "ioctl": 29, "mknodat": 33, "umount2": 39, "mount": 40, "pivot_root": 41, "nfsservctl": 42,
    "chroot": 51, "fchmod": 52, "fchmodat": 53, "openat": 56, "vhangup": 58, "quotactl": 60, "vmsplice": 75, "acct": 89,
    "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112,
    "syslog": 116, "ptrace": 117, "sched_setaffinity": 122, "reboot": 142, "sethostname": 161, "setdomainname": 162,
    "settimeofday": 170, "adjtimex": 171, "socket": 198, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220,
    "swapon": 224, "swapoff": 225, "mbind": 235, "get_mempolicy": 236, "set_mempolicy": 237, "migrate_pages": 238,
    "move_pages": 239, "perf_event_open": 241, "prlimit64": 261, "fanotify_init": 262, "name_to_handle_at": 264,
    "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271,
    "kcmp": 272, "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
    **_COMMON,
}  # fmt: skip

# removexattrat, Linux 6.13. open_tree_attr (467) and later are not vetted.
_NEWEST = 466

X86_64 = Arch("x86_64", 0xC000003E, MappingProxyType(_X86_64), _NEWEST, x32=True)
AARCH64 = Arch("aarch64", 0xC00000B7, MappingProxyType(_AARCH64), _NEWEST, x32=False)
ARCHES = MappingProxyType({arch.name: arch for arch in (X86_64, AARCH64)})
