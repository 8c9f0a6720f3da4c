"""What the seccomp filter refuses by default: the policy, as data. Reasons and sources are in docs/threat-model.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

EPERM, EINVAL, ENOTTY, ENOSYS, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT = 1, 22, 25, 38, 93, 95, 97


@dataclass(frozen=True, slots=True)
class Condition:
    """Of one argument. ``any_bit``: shares a bit with ``values[0]``. ``is_in`` and ``not_in``: equals one, or none, of ``values``.

    ``wide`` compares both words, for what the kernel takes as 64 bits or as a pointer. Else the low word alone counts, under
    ``mask``: the kernel does not look at the other, so a filter that did could be passed by with a bit there.
    """

    arg: int
    test: Literal["any_bit", "is_in", "not_in"]
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """Refuse with ``errno`` when all conditions hold. The first rule of a call that does decides; else it is allowed."""

    errno: int
    conditions: tuple[Condition, ...]


# Programs probe for these and fall back when the kernel does not have them.
NOT_THERE = (
    "io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "open_tree", "move_mount", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "statmount", "listmount", "memfd_secret", "openat2", "lsm_set_self_attr", "cachestat",
    "remap_file_pages",
)  # fmt: skip

# Privileged, or a way into another process, the kernel or the host's state.
FORBIDDEN = (
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "ptrace", "process_vm_readv", "process_vm_writev",
    "process_madvise", "kcmp", "pidfd_getfd", "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd",
    "open_by_handle_at", "name_to_handle_at", "kexec_load", "kexec_file_load", "reboot", "init_module", "finit_module",
    "delete_module", "create_module", "get_kernel_syms", "query_module", "swapon", "swapoff", "acct", "quotactl",
    "quotactl_fd", "nfsservctl", "lookup_dcookie", "iopl", "ioperm", "modify_ldt", "syslog", "fanotify_init", "vhangup",
    "sethostname", "setdomainname", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "mbind", "set_mempolicy",
    "get_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages", "vmsplice", "uselib", "ustat", "sysfs",
    "_sysctl", "process_mrelease",
)  # fmt: skip

# Under a quota of CPUs, which affinity holds.
FORBIDDEN_WHEN_PINNED = ("sched_setaffinity",)

# CLONE_NEWTIME, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWNS: a nested namespace re-opens kernel surface.
_CLONE_NEW = 0x7E020080
# Set-user-id and set-group-id: in an id-mapped workspace such a file would be its owner's on the host, root's included.
_SETID = 0o6000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_TYPE_MASK = 0xF
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET = 1, 2, 5
# IPPROTO_IP (the type's own), ICMP, TCP, UDP, ICMPV6. The others load modules: SCTP, DCCP, MPTCP, SMC, L2TP.
_INET_PROTOCOLS = (0, 1, 6, 17, 58)
_NETLINK_ROUTE = 0
_TIOCSTI, _TIOCLINUX, _TIOCCONS, _TIOCSETD = 0x5412, 0x541C, 0x541D, 0x5423
_F_SETLEASE, _F_SETDELEG = 1024, 1040
# PER_LINUX, PER_LINUX32, UNAME26 with each, and "only ask": as Docker's default profile.
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
_FIRST_PROCESS = 1
_PRIO_USER, _IOPRIO_WHO_USER = 2, 3


def _deny(errno: int, *conditions: Condition) -> Rule:
    return Rule(errno, conditions)


def _setid(arg: int) -> tuple[Rule, ...]:
    return (_deny(EPERM, Condition(arg, "any_bit", (_SETID,))),)


def _not_of_the_first_process(arg: int) -> tuple[Rule, ...]:
    return (_deny(EPERM, Condition(arg, "is_in", (_FIRST_PROCESS,))),)


def _priority(user: int) -> tuple[Rule, ...]:
    """Of a call with (which, who): not of the first process or its group, and not of everybody of the uid that it may share."""
    return (*_not_of_the_first_process(1), _deny(EPERM, Condition(0, "is_in", (user,))))


CHECKED: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "clone": (_deny(EPERM, Condition(0, "any_bit", (_CLONE_NEW,))),),
        "personality": (_deny(EPERM, Condition(0, "not_in", PERSONALITIES)),),
        "socket": (
            _deny(EAFNOSUPPORT, Condition(0, "not_in", (_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK))),
            # Netlink sockets are datagram or raw alike, and getaddrinfo opens raw ones. It needs routes, no other protocol.
            _deny(EAFNOSUPPORT, Condition(0, "is_in", (_AF_NETLINK,)), Condition(2, "not_in", (_NETLINK_ROUTE,))),
            _deny(
                EPERM,
                Condition(0, "not_in", (_AF_NETLINK,)),
                Condition(1, "not_in", (_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET), mask=_SOCK_TYPE_MASK),
            ),
            _deny(EPROTONOSUPPORT, Condition(0, "is_in", (_AF_INET, _AF_INET6)), Condition(2, "not_in", _INET_PROTOCOLS)),
        ),
        # The kernel makes the two sockets, loading a module for the family, before it asks whether the family has pairs.
        "socketpair": (_deny(EAFNOSUPPORT, Condition(0, "not_in", (_AF_UNIX,))),),
        "ioctl": (_deny(EPERM, Condition(1, "is_in", (_TIOCSTI, _TIOCLINUX, _TIOCCONS, _TIOCSETD))),),
        "fcntl": (_deny(EPERM, Condition(1, "is_in", (_F_SETLEASE, _F_SETDELEG))),),
        # To read them is harmless. The new limits are behind a pointer: it is null only with both words zero.
        "prlimit64": (_deny(EPERM, Condition(0, "not_in", (0,)), Condition(2, "not_in", (0,), wide=True)),),
        "setpriority": _priority(_PRIO_USER),
        "ioprio_set": _priority(_IOPRIO_WHO_USER),
        "sched_setparam": _not_of_the_first_process(0),
        "sched_setscheduler": _not_of_the_first_process(0),
        "sched_setattr": _not_of_the_first_process(0),
        "sched_setaffinity": _not_of_the_first_process(0),
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
)
