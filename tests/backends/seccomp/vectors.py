"""Arguments worth trying with each call that is checked, and what the kernel's reading of them must lead to.

The expectations are written from the kernel's side: what it does with the arguments, not how the filter's rules are made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

ALLOW, EPERM, EINVAL, ENOTTY, ENOSYS = "allow", "EPERM", "EINVAL", "ENOTTY", "ENOSYS"
EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT = "EPROTONOSUPPORT", "EOPNOTSUPP", "EAFNOSUPPORT"
NOISE = (0, 1 << 32, 0xDEADBEEF << 32, 1 << 63, 0xFFFFFFFF << 32)
Arguments = tuple[int, ...]

UNIX, INET, INET6, NETLINK = 1, 2, 10, 16


def around(*values: int) -> list[int]:
    """Each value and its neighbours, as 32 bits, and the ends of the range."""
    return sorted({(value + step) & 0xFFFFFFFF for value in (*values, 0, 1 << 31, 0xFFFFFFFF) for step in (-1, 0, 1)})


def noisy(values: list[int]) -> list[int]:
    """Each value with nothing and with something in the word that the kernel does not look at."""
    return [value | noise for value in values for noise in NOISE]


def at(position: int, values: list[int]) -> Iterator[Arguments]:
    """The values as that argument, all others zero: a null path or a null structure, so that nothing happens."""
    for value in values:
        yield tuple(value if index == position else 0 for index in range(6))


FLAGS = [1 << bit for bit in range(32)]
# linux/sched.h: NEWTIME 7, NEWNS 17, NEWCGROUP 25, NEWUTS 26, NEWIPC 27, NEWUSER 28, NEWPID 29, NEWNET 30
NAMESPACES = {1 << bit for bit in (7, 17, 25, 26, 27, 28, 29, 30)}
CLONE_THREAD = 0x10000  # without CLONE_SIGHAND: EINVAL, so that an allowed call makes no process


def clone(flags: int, *_: int) -> str:
    return EPERM if any(flags & bit for bit in NAMESPACES) else ALLOW


def personality(persona: int, *_: int) -> str:
    return ALLOW if persona & 0xFFFFFFFF in {0, 8, 0x20000, 0x20008, 0xFFFFFFFF} else EPERM


def sockets(family: int, kind: int, protocol: int, *_: int) -> str:
    family, kind, protocol = family & 0xFFFFFFFF, kind & 0xF, protocol & 0xFFFFFFFF
    if family == NETLINK:
        return ALLOW if protocol == 0 else EAFNOSUPPORT
    if family not in {UNIX, INET, INET6}:
        return EAFNOSUPPORT
    if kind not in {1, 2, 5}:
        return EPERM
    return ALLOW if family == UNIX or protocol in {0, 1, 6, 17, 58} else EPROTONOSUPPORT


def socket_vectors(families: list[int]) -> Iterator[Arguments]:
    """Families by types, with and without SOCK_CLOEXEC and SOCK_NONBLOCK, by protocols; noise in turn."""
    kinds = [kind | flags for kind in range(16) for flags in (0, 0x80800)]
    protocols = [0, 1, 2, 4, 6, 12, 16, 17, 33, 58, 115, 132, 136, 255, 256, 262, 0xFFFFFFFF]
    noise = itertools.cycle(itertools.product(NOISE, repeat=3))
    for numbers in itertools.product(families, kinds, protocols):
        yield (*(number | above for number, above in zip(numbers, next(noise), strict=True)), 0, 0, 0)


def limits(pid: int, _: int, new: int, *__: int) -> str:
    return EPERM if pid & 0xFFFFFFFF and new else ALLOW


def limit_vectors() -> Iterator[Arguments]:
    # Pointers into the last page below the kernel's half, with one word zero, and with either: none can be read.
    pointers = [0, 1, 0xFFF, 1 << 32, 0xDEAD << 32, 1 << 63, (1 << 63) + 1, (1 << 64) - 1]
    for pid, new in itertools.product(noisy(around(0, 1, 2)), pointers):
        yield (pid, 7, new, 0, 0, 0)


def low_is(position: int, *values: int) -> Callable[..., str]:
    return lambda *words: EPERM if words[position] & 0xFFFFFFFF in values else ALLOW


def priority(user: int) -> Callable[..., str]:
    return lambda which, who, *_: EPERM if which & 0xFFFFFFFF == user or who & 0xFFFFFFFF == 1 else ALLOW


def mode(position: int) -> Callable[..., str]:
    return lambda *words: EPERM if words[position] & 0o6000 else ALLOW


MODES = noisy([0, 0o644, 0o777, 0o1777, 0o2000, 0o4000, 0o6000, 0o7777, 0o4755, 0o102755, *FLAGS[:16]])
REQUESTS = (0x5412, 0x541C, 0x541D, 0x5423)
PIDS = noisy(around(0, 1, 2))

Row = tuple[Callable[..., str], Callable[[], Iterator[Arguments]]]


def _moded(position: int) -> Row:
    return mode(position), lambda: at(position, MODES)


def _of_pid() -> Row:
    return low_is(0, 1), lambda: at(0, PIDS)


def _of_which_and_who(user: int) -> Row:
    pairs = itertools.product(noisy(around(1, 2, 3)), noisy(around(0, 1, 2)))
    wanted = list(pairs)
    return priority(user), lambda: ((which, who, 0, 0, 0, 0) for which, who in wanted)


# name of the call -> what must come of arguments, and arguments
CALLS: dict[str, Row] = {
    "clone": (clone, lambda: at(0, noisy([CLONE_THREAD | flag for flag in FLAGS if flag != 0x800]))),
    "personality": (personality, lambda: at(0, noisy(around(8, 0x20000, 0x20008, *FLAGS)))),
    "socket": (sockets, lambda: socket_vectors([*range(61), *around(61)[-6:]])),
    "socketpair": (
        lambda family, *_: ALLOW if family & 0xFFFFFFFF == UNIX else EAFNOSUPPORT,
        lambda: ((family, kind, 0, 0, 0, 0) for family in noisy([*range(61), *FLAGS]) for kind in (1, 2, 3, 0x80005)),
    ),
    "ioctl": (
        low_is(1, *REQUESTS),
        lambda: ((0xFFFFFFFF, *words[1:]) for words in at(1, noisy(around(*REQUESTS)))),
    ),
    "fcntl": (low_is(1, 1024, 1040), lambda: ((0xFFFFFFFF, *words[1:]) for words in at(1, noisy(around(1024, 1040))))),
    "prlimit64": (limits, limit_vectors),
    "setpriority": _of_which_and_who(2),
    "ioprio_set": _of_which_and_who(3),
    "sched_setparam": _of_pid(),
    "sched_setscheduler": _of_pid(),
    "sched_setattr": _of_pid(),
    "sched_setaffinity": _of_pid(),
    "chmod": _moded(1),
    "fchmod": (mode(1), lambda: ((0xFFFFFFFF, *words[1:]) for words in at(1, MODES))),
    "fchmodat": _moded(2),
    "fchmodat2": _moded(2),
    "open": _moded(2),
    "openat": _moded(3),
    "creat": _moded(1),
    "mknod": _moded(1),
    "mknodat": _moded(2),
}


def low_is_none_of(position: int, errno: str, *values: int) -> Callable[..., str]:
    return lambda *words: ALLOW if words[position] & 0xFFFFFFFF in values else errno


# linux/ptrace.h. None of the ways to see or to pass by a filter, and nothing that a later kernel may bring.
TRACING = {*range(10), *range(12, 20), 24, 25, 26, 30, 33, *range(0x4200, 0x420C), 0x420E, 0x420F, 0x4212}
NO_TRACING = {10, 11, 20, 21, 22, 23, 27, 28, 29, 31, 32, 34, 0x41FF, 0x420C, 0x420D, 0x4210, 0x4211, 0x4213}
SUSPEND_SECCOMP = 1 << 21


def tracing(request: int, _pid: int, _address: int, data: int, *_: int) -> str:
    if request not in TRACING or (request in {0x4200, 0x4206} and data & SUSPEND_SECCOMP):
        return EPERM
    return ALLOW


def tracing_vectors() -> Iterator[Arguments]:
    """A process that does not exist, so that nobody is traced, but for TRACEME, which the prober must not ask for."""
    requests = [request | above for request in sorted(TRACING | NO_TRACING) if request for above in NOISE]
    for request, data in itertools.product(requests, (0, SUSPEND_SECCOMP, SUSPEND_SECCOMP | HIGHEST, 0x1FF)):
        yield (request, 0x3FFFFFFF, 0, data, 0, 0)


HIGHEST = 1 << 63


def debug_personality(persona: int, *_: int) -> str:
    return ALLOW if persona & 0xFFFFFFFF == 0x40000 else personality(persona)


def strict_pair(family: int, kind: int, *_: int) -> str:
    if family & 0xFFFFFFFF != UNIX:
        return EAFNOSUPPORT
    return ALLOW if kind & 0xF in {1, 5} else EPERM


IOCTLS = (
    0x5401, 0x5402, 0x5403, 0x5404, 0x540E, 0x540F, 0x5410, 0x5413, 0x5414, 0x541B, 0x5421, 0x5422, 0x5429, 0x5441, 0x5450,
    0x5451, 0x40045431, 0x80045430, 0x802C542A,
)  # fmt: skip
PRCTLS = (1, 2, 3, 4, 8, 15, 16, 21, 23, 27, 36, 37, 38, 39, 47, 0x53564D41)
# Asked of a prober these would end it or make it another: PR_SET_DUMPABLE and the like are harmless, SECCOMP is refused.
FCNTLS = (0, 1, 2, 3, 4, 1030, 1032)


def _on_no_file(position: int, values: list[int]) -> Callable[[], Iterator[Arguments]]:
    return lambda: ((0xFFFFFFFF, *words[1:]) for words in at(position, values))


DEBUG: dict[str, Row] = {
    "ptrace": (tracing, tracing_vectors),
    "personality": (debug_personality, lambda: at(0, noisy(around(8, 0x20000, 0x20008, *FLAGS)))),
}
STRICT: dict[str, Row] = {
    "ioctl": (low_is_none_of(1, ENOTTY, *IOCTLS), _on_no_file(1, noisy(around(*IOCTLS, *REQUESTS)))),
    "fcntl": (low_is_none_of(1, EPERM, *FCNTLS), _on_no_file(1, noisy(around(*FCNTLS, *range(40), 1024, 1026, 1034, 1040)))),
    "prctl": (low_is_none_of(0, EINVAL, *PRCTLS), lambda: at(0, noisy(around(*PRCTLS, *range(80), 0x59616D61)))),
    "socket": (lambda *_: EAFNOSUPPORT, lambda: socket_vectors([*range(61), *around(61)[-6:]])),
    "socketpair": (strict_pair, CALLS["socketpair"][1]),
    **{
        f"{kind}{verb}xattr": (lambda *_: EOPNOTSUPP, lambda: at(0, [0]))
        for verb in ("get", "set", "list", "remove")
        for kind in ("", "l", "f")
    },
}


def calls_of(profile: str) -> dict[str, Row]:
    """By profile: the default's with those of the profile in place of its own."""
    return {**CALLS, **{"default": {}, "debug": DEBUG, "strict": STRICT}[profile]}
