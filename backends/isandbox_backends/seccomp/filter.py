"""The seccomp filter: rules to BPF instructions, a pure function.

Shape: architecture, x32, then a binary search over the number, so that each path through the program is short (the kernel
walks it once for every number when it is loaded; a linear chain of 120 rules costs twice as much). Arguments are compared
in their low word only where the kernel itself uses 32 bits; comparing 64 would let ``TIOCSTI | 1 << 32`` through
(CVE-2019-10063).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from isandbox_backends.seccomp.syscalls import ARCHES, Arch

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97

# linux/seccomp.h and linux/bpf_common.h
RET_ALLOW = 0x7FFF0000
RET_ERRNO = 0x00050000
RET_KILL_PROCESS = 0x80000000
LD_ABS, RET, JA, JEQ, JGE, JSET = 0x20, 0x06, 0x05, 0x15, 0x35, 0x45
_OFFSET_NR, _OFFSET_ARCH, _OFFSET_ARGS = 0, 4, 16
_X32_BIT = 0x40000000

Instruction = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Check:
    """Deny with ``errno`` when the low word of argument ``arg`` is as ``test`` says; checks of one call apply in order.

    ``any_bit``: shares a bit with ``values[0]``. ``is_in`` and ``not_in``: equals one, or none, of ``values``.
    """

    arg: int
    test: Literal["any_bit", "is_in", "not_in"]
    values: tuple[int, ...]
    errno: int
    mask: int = 0xFFFFFFFF


# CLONE_NEWTIME, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWNS: a nested namespace re-opens kernel surface.
_CLONE_NEW = 0x7E020080
# Set-user-id and set-group-id: in an id-mapped workspace such a file would be its owner's on the host, root's included.
_SETID = 0o6000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_TYPE_MASK = 0xF
_SOCK_DGRAM, _SOCK_RAW, _SOCK_PACKET = 2, 3, 10
_TIOCSTI, _TIOCLINUX, _TIOCCONS, _TIOCSETD = 0x5412, 0x541C, 0x541D, 0x5423
# PER_LINUX, PER_LINUX32, UNAME26 with each, and "only ask": as Docker's default profile.
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

# Programs probe for these and fall back when the kernel does not have them.
_NOT_THERE = (
    "io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "open_tree", "move_mount", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "statmount", "listmount", "memfd_secret", "openat2", "lsm_set_self_attr",
)  # fmt: skip

# Privileged, or a way into another process, the kernel or the host's state; reasons in docs/threat-model.md.
_FORBIDDEN = (
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "ptrace", "process_vm_readv", "process_vm_writev",
    "process_madvise", "kcmp", "pidfd_getfd", "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd",
    "open_by_handle_at", "name_to_handle_at", "kexec_load", "kexec_file_load", "reboot", "init_module", "finit_module",
    "delete_module", "create_module", "get_kernel_syms", "query_module", "swapon", "swapoff", "acct", "quotactl",
    "quotactl_fd", "nfsservctl", "lookup_dcookie", "iopl", "ioperm", "modify_ldt", "syslog", "fanotify_init", "vhangup",
    "sethostname", "setdomainname", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "mbind", "set_mempolicy",
    "get_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages", "vmsplice", "uselib", "ustat", "sysfs",
    "_sysctl",
)  # fmt: skip


def _setid(arg: int) -> tuple[Check, ...]:
    return (Check(arg, "any_bit", (_SETID,), EPERM),)


_CHECKED: Mapping[str, tuple[Check, ...]] = {
    "clone": (Check(0, "any_bit", (_CLONE_NEW,), EPERM),),
    "personality": (Check(0, "not_in", _PERSONALITIES, EPERM),),
    "socket": (
        Check(0, "not_in", (_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK), EAFNOSUPPORT),
        Check(1, "is_in", (_SOCK_RAW, _SOCK_PACKET), EPERM, mask=_SOCK_TYPE_MASK),
    ),
    # connect (AF_UNSPEC) unlinks a datagram pair, which then sends to any path it can see.
    "socketpair": (Check(1, "is_in", (_SOCK_DGRAM, _SOCK_RAW), EPERM, mask=_SOCK_TYPE_MASK),),
    "ioctl": (Check(1, "is_in", (_TIOCSTI, _TIOCLINUX, _TIOCCONS, _TIOCSETD), EPERM),),
    "prlimit64": (Check(0, "not_in", (0,), EPERM),),
    "chmod": _setid(1),
    "fchmod": _setid(1),
    "fchmodat": _setid(2),
    "fchmodat2": _setid(2),
    "open": _setid(2),
    "openat": _setid(3),
    "creat": _setid(1),
    "mknod": _setid(1),
    "mknodat": _setid(2),
}

# AF_NETLINK sockets are datagram or raw alike, and getaddrinfo opens raw ones: netlink is told apart by its protocol.
_NETLINK_ROUTE = 0


@lru_cache(maxsize=8)
def compile_filter(arch: str, *, pinned: bool = False) -> bytes:
    """The default profile for an architecture of `ARCHES` as the bytes of ``struct sock_filter[]``.

    ``pinned``: affinity is a quota, so that a command may not change it.
    """
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in default_program(ARCHES[arch], pinned=pinned))


def default_program(arch: Arch, *, pinned: bool = False) -> list[Instruction]:
    forbidden = (*_FORBIDDEN, "sched_setaffinity") if pinned else _FORBIDDEN
    return program(arch, forbidden=forbidden, not_there=_NOT_THERE, checked=_CHECKED)


def program(
    arch: Arch, *, forbidden: Sequence[str], not_there: Sequence[str], checked: Mapping[str, Sequence[Check]]
) -> list[Instruction]:
    """EPERM for ``forbidden``, ENOSYS for ``not_there`` and for numbers past the newest, checks for ``checked``; all else
    is allowed. Another architecture kills the process, x32 numbers are ENOSYS.
    """
    code: list[Instruction] = [
        (LD_ABS, 0, 0, _OFFSET_ARCH),
        (JEQ, 1, 0, arch.audit),
        (RET, 0, 0, RET_KILL_PROCESS),
        (LD_ABS, 0, 0, _OFFSET_NR),
    ]
    if arch.x32:
        code += [(JSET, 0, 1, _X32_BIT), _errno(ENOSYS)]
    leaves: dict[int, list[Instruction]] = {}
    for names, errno in ((forbidden, EPERM), (not_there, ENOSYS)):
        for name in names:
            if name in arch.numbers:
                leaves[arch.numbers[name]] = [_errno(errno)]
    for name, checks in checked.items():
        if name in arch.numbers:
            leaves[arch.numbers[name]] = _check_block(name, checks)
    return code + _search(_intervals(leaves, arch.newest))


def _errno(number: int) -> Instruction:
    return (RET, 0, 0, RET_ERRNO | number)


_ALLOW: Instruction = (RET, 0, 0, RET_ALLOW)


def _check_block(name: str, checks: Sequence[Check]) -> list[Instruction]:
    code: list[Instruction] = []
    if name == "socket":
        code += _netlink_block()
    for check in checks:
        code += _check(check)
    return [*code, _ALLOW]


def _netlink_block() -> list[Instruction]:
    """NETLINK_ROUTE is what getaddrinfo and getifaddrs need; the other protocols are kernel surface."""
    return [
        _load_arg(0),
        (JEQ, 0, 4, _AF_NETLINK),
        _load_arg(2),
        (JEQ, 0, 1, _NETLINK_ROUTE),
        _ALLOW,
        _errno(EAFNOSUPPORT),
    ]


def _load_arg(arg: int) -> Instruction:
    return (LD_ABS, 0, 0, _OFFSET_ARGS + 8 * arg)


def _check(check: Check) -> list[Instruction]:
    code = [_load_arg(check.arg)]
    if check.mask != 0xFFFFFFFF:
        code.append((0x54, 0, 0, check.mask))  # BPF_ALU | BPF_AND | BPF_K
    if check.test == "any_bit":
        return [*code, (JSET, 0, 1, check.values[0]), _errno(check.errno)]
    count = len(check.values)
    for index, value in enumerate(check.values):
        left = count - index - 1
        if check.test == "is_in":
            code.append((JEQ, left, 0 if left else 1, value))
        else:
            code.append((JEQ, left + 1, 0, value))
    return [*code, _errno(check.errno)]


def _intervals(leaves: Mapping[int, list[Instruction]], newest: int) -> list[tuple[int, list[Instruction]]]:
    """``(first number, code)`` for every stretch of numbers that is treated alike, ascending, the first at 0."""
    stretches: list[tuple[int, list[Instruction]]] = []
    for number in range(newest + 1):
        code = leaves.get(number, [_ALLOW])
        if not stretches or stretches[-1][1] != code or len(code) > 1:
            stretches.append((number, code))
    stretches.append((newest + 1, [_errno(ENOSYS)]))
    return stretches


def _search(stretches: Sequence[tuple[int, list[Instruction]]]) -> list[Instruction]:
    if len(stretches) == 1:
        return stretches[0][1]
    middle = len(stretches) // 2
    low, high = _search(stretches[:middle]), _search(stretches[middle:])
    first = stretches[middle][0]
    if len(low) <= 255:
        return [(JGE, len(low), 0, first), *low, *high]
    return [(JGE, 0, 1, first), (JA, 0, 0, len(low)), *low, *high]
