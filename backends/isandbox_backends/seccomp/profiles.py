"""The filter's profiles: what `debug` gives back of what `default` refuses, and the little that `strict` leaves. Data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from isandbox_backends.seccomp.rules import (
    CHECKED,
    EAFNOSUPPORT,
    EINVAL,
    ENOTTY,
    EOPNOTSUPP,
    EPERM,
    FORBIDDEN,
    NOT_THERE,
    PERSONALITIES,
    Condition,
    Rule,
)

ProfileName = Literal["default", "debug", "strict"]
PROFILE_NAMES: tuple[ProfileName, ...] = get_args(ProfileName)


@dataclass(frozen=True, slots=True)
class Profile:
    """``forbidden`` is EPERM, ``not_there`` ENOSYS, ``checked`` decided by arguments.

    ``only``: of all other calls these alone are allowed, the rest is ENOSYS; ``None`` allows all of them. A rule without
    conditions is the answer to the call whatever its arguments.
    """

    forbidden: tuple[str, ...]
    not_there: tuple[str, ...]
    checked: Mapping[str, tuple[Rule, ...]]
    only: frozenset[str] | None = None


def _one_of(arg: int, values: tuple[int, ...], *, errno: int = EPERM, wide: bool = False) -> Rule:
    return Rule(errno, (Condition(arg, "not_in", values, wide=wide),))


# What gdb, strace, lldb and the leak sanitiser do: all of linux/ptrace.h up to Linux 6.18, but for system call emulation (31,
# 32; user-mode Linux), the dispatch of system calls to user space (0x4210, 0x4211) and the reading of filters (0x420C, 0x420D).
# The kernel takes the request as 64 bits.
_PTRACE_REQUESTS = (
    *range(10), 12, 13, 14, 15, 16, 17, 18, 19, 24, 25, 26, 30, 33,
    *range(0x4200, 0x420C), 0x420E, 0x420F, 0x4212,
)  # fmt: skip
_PTRACE_SETOPTIONS, _PTRACE_SEIZE = 0x4200, 0x4206
_PTRACE_O_SUSPEND_SECCOMP = 1 << 21
_ADDR_NO_RANDOMIZE = 0x0040000

_DEBUG_CHECKED: Mapping[str, tuple[Rule, ...]] = {
    "ptrace": (
        _one_of(0, _PTRACE_REQUESTS, wide=True),
        # A filter that is suspended is none. The kernel asks for a capability in the first user namespace as well.
        Rule(
            EPERM,
            (
                Condition(0, "is_in", (_PTRACE_SETOPTIONS, _PTRACE_SEIZE)),
                Condition(3, "any_bit", (_PTRACE_O_SUSPEND_SECCOMP,)),
            ),
        ),
    ),
    "personality": (_one_of(0, (*PERSONALITIES, _ADDR_NO_RANDOMIZE)),),
}
# process_vm_readv is how strace reads, and asks what PTRACE_PEEKDATA asks.
_DEBUG_ALLOWED = ("ptrace", "process_vm_readv")

# What the C library, CPython, node, bash, gcc and binutils do, and the helper, which is under the filter too (its own:
# from setresuid on). A test holds the helper's part against its source.
_STRICT_NAMES = """
read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn ioctl
pread64 pwrite64 readv writev preadv pwritev access pipe select sched_yield mremap msync madvise dup dup2 pause nanosleep
getitimer alarm setitimer getpid sendfile clone fork vfork execve exit exit_group wait4 waitid kill tkill tgkill uname
fcntl fsync fdatasync truncate ftruncate fallocate getdents getdents64 getcwd chdir fchdir rename renameat renameat2 mkdir
mkdirat rmdir creat link linkat unlink unlinkat symlink symlinkat readlink readlinkat chmod fchmod fchmodat fchmodat2 chown
fchown lchown fchownat umask gettimeofday time getrlimit setrlimit prlimit64 getrusage sysinfo times getuid getgid geteuid
getegid getresuid getresgid getgroups setpgid getppid getpgrp getpgid setsid getsid rt_sigpending rt_sigtimedwait
rt_sigsuspend sigaltstack utime utimes utimensat statfs fstatfs getpriority prctl arch_prctl gettid futex sched_getaffinity
set_tid_address restart_syscall clock_gettime clock_getres clock_nanosleep epoll_create epoll_create1 epoll_ctl epoll_wait
epoll_pwait epoll_pwait2 eventfd2 openat newfstatat faccessat faccessat2 pselect6 ppoll set_robust_list dup3 pipe2
getcpu getrandom membarrier statx rseq close_range socketpair sendto recvfrom sendmsg recvmsg shutdown getsockname
getpeername getsockopt setsockopt
setresuid setresgid setfsuid setfsgid signalfd4 pidfd_open pidfd_send_signal capget mknod mknodat
"""
_STRICT_ONLY = frozenset(_STRICT_NAMES.split())
# Locks reach whoever else has the file: another sandbox that reads the same /usr, a program of the host.
_STRICT_FORBIDDEN = ("flock",)
# F_DUPFD, GETFD, SETFD, GETFL, SETFL, DUPFD_CLOEXEC, GETPIPE_SZ: no locks, no leases, no F_NOTIFY, no larger pipes
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030, 1032)
# asm-generic/ioctls.h: TCGETS, TCSETS, TCSETSW, TCSETSF, TIOCSCTTY, TIOCGPGRP, TIOCSPGRP, TIOCGWINSZ, TIOCSWINSZ, FIONREAD,
# FIONBIO, TIOCNOTTY, TIOCGSID, TCGETS2, TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER, FIONCLEX, FIOCLEX
_IOCTLS = (
    0x5401, 0x5402, 0x5403, 0x5404, 0x540E, 0x540F, 0x5410, 0x5413, 0x5414, 0x541B, 0x5421, 0x5422, 0x5429,
    0x802C542A, 0x80045430, 0x40045431, 0x5441, 0x5450, 0x5451,
)  # fmt: skip
# linux/prctl.h: SET_PDEATHSIG, GET_PDEATHSIG, GET_DUMPABLE, SET_DUMPABLE, SET_KEEPCAPS, SET_NAME, GET_NAME, GET_SECCOMP,
# CAPBSET_READ, GET_SECUREBITS, SET_CHILD_SUBREAPER, GET_CHILD_SUBREAPER, SET_NO_NEW_PRIVS, GET_NO_NEW_PRIVS, CAP_AMBIENT, SET_VMA
_PRCTLS = (1, 2, 3, 4, 8, 15, 16, 21, 23, 27, 36, 37, 38, 39, 47, 0x53564D41)
_EXTENDED_ATTRIBUTES = tuple(f"{kind}{verb}xattr" for verb in ("get", "set", "list", "remove") for kind in ("", "l", "f"))
_AF_UNIX = 1
_SOCK_TYPE_MASK, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5

_STRICT_CHECKED: Mapping[str, tuple[Rule, ...]] = {
    "ioctl": (_one_of(1, _IOCTLS, errno=ENOTTY),),
    "fcntl": (_one_of(1, _FCNTL_COMMANDS),),
    "prctl": (_one_of(0, _PRCTLS, errno=EINVAL),),
    "socket": (Rule(EAFNOSUPPORT, ()),),
    # As a file system that has none, which programs expect; ENOSYS makes ls complain.
    **dict.fromkeys(_EXTENDED_ATTRIBUTES, (Rule(EOPNOTSUPP, ()),)),
    # Not datagrams: their sender may name any socket that it can see, also on a pair.
    "socketpair": (
        _one_of(0, (_AF_UNIX,), errno=EAFNOSUPPORT),
        Rule(EPERM, (Condition(1, "not_in", (_SOCK_STREAM, _SOCK_SEQPACKET), mask=_SOCK_TYPE_MASK),)),
    ),
}


def _checked(own: Mapping[str, tuple[Rule, ...]], only: frozenset[str] | None = None) -> Mapping[str, tuple[Rule, ...]]:
    """The default's rules, with ``own`` in place of those of the same call."""
    kept = {name: rules for name, rules in CHECKED.items() if only is None or name in only}
    return MappingProxyType({**kept, **own})


PROFILES: Mapping[ProfileName, Profile] = MappingProxyType(
    {
        "default": Profile(FORBIDDEN, NOT_THERE, CHECKED),
        "debug": Profile(tuple(name for name in FORBIDDEN if name not in _DEBUG_ALLOWED), NOT_THERE, _checked(_DEBUG_CHECKED)),
        "strict": Profile(
            (*FORBIDDEN, *_STRICT_FORBIDDEN), NOT_THERE, _checked(_STRICT_CHECKED, _STRICT_ONLY), only=_STRICT_ONLY
        ),
    }
)
