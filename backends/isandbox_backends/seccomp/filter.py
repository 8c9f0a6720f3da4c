"""The seccomp filter: rules to BPF instructions, a pure function.

Shape: architecture, x32, then a binary search over the number, so that each path through the program is short (the kernel
walks it once for every number when it is loaded; a linear chain of 120 rules costs twice as much). Arguments are compared
in their low word only where the kernel itself uses 32 bits; comparing 64 would let ``TIOCSTI | 1 << 32`` through
(CVE-2019-10063). Where it uses 64, or a pointer, both words are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from isandbox_backends.seccomp.profiles import PROFILES, ProfileName
from isandbox_backends.seccomp.rules import ENOSYS, EPERM, FORBIDDEN_WHEN_PINNED, Condition, Rule
from isandbox_backends.seccomp.syscalls import ARCHES, Arch

# linux/seccomp.h and linux/bpf_common.h
RET_ALLOW = 0x7FFF0000
RET_ERRNO = 0x00050000
RET_KILL_PROCESS = 0x80000000
LD_ABS, RET, JA, JEQ, JGE, JSET, AND = 0x20, 0x06, 0x05, 0x15, 0x35, 0x45, 0x54
_OFFSET_NR, _OFFSET_ARCH, _OFFSET_ARGS = 0, 4, 16
_X32_BIT = 0x40000000
_LOW = 0xFFFFFFFF

Instruction = tuple[int, int, int, int]


@lru_cache(maxsize=8)
def compile_filter(arch: str, *, profile: ProfileName = "default", pin_cpus: bool = False) -> bytes:
    """A profile for an architecture of `ARCHES` as the bytes of ``struct sock_filter[]``."""
    return pack(profile_program(ARCHES[arch], profile, pin_cpus=pin_cpus))


def pack(code: Sequence[Instruction]) -> bytes:
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def profile_program(arch: Arch, profile: ProfileName = "default", *, pin_cpus: bool = False) -> list[Instruction]:
    """``pin_cpus``: a quota of CPUs is held by affinity, which commands may then not change."""
    policy = PROFILES[profile]
    pinned = FORBIDDEN_WHEN_PINNED if pin_cpus else ()
    forbidden = (*policy.forbidden, *pinned)
    decided = {*forbidden, *policy.checked}
    left_out = () if policy.only is None else (name for name in arch.numbers if name not in policy.only | decided)
    not_there = (*policy.not_there, *left_out)
    checked = {name: rules for name, rules in policy.checked.items() if name not in pinned}
    return program(arch, forbidden=forbidden, not_there=not_there, checked=checked)


def program(
    arch: Arch, *, forbidden: Sequence[str], not_there: Sequence[str], checked: Mapping[str, Sequence[Rule]]
) -> list[Instruction]:
    """EPERM for ``forbidden``, ENOSYS for ``not_there``, rules for ``checked``; other calls of the architecture are allowed.

    Numbers past the newest and numbers that no call has are ENOSYS: what a later kernel puts there was not looked at.
    Another architecture kills the process, x32 numbers are ENOSYS.
    """
    code: list[Instruction] = [
        (LD_ABS, 0, 0, _OFFSET_ARCH),
        (JEQ, 1, 0, arch.audit),
        (RET, 0, 0, RET_KILL_PROCESS),
        (LD_ABS, 0, 0, _OFFSET_NR),
    ]
    if arch.x32:
        code += [(JSET, 0, 1, _X32_BIT), _errno(ENOSYS)]
    leaves = {number: [_ALLOW] for number in arch.numbers.values()}
    for names, errno in ((forbidden, EPERM), (not_there, ENOSYS)):
        for name in names:
            if name in arch.numbers:
                leaves[arch.numbers[name]] = [_errno(errno)]
    for name, rules in checked.items():
        if name in arch.numbers:
            leaves[arch.numbers[name]] = _checked(rules)
    return code + _search(_intervals(leaves, arch.newest))


def _errno(number: int) -> Instruction:
    return (RET, 0, 0, RET_ERRNO | number)


_ALLOW: Instruction = (RET, 0, 0, RET_ALLOW)


def _checked(rules: Sequence[Rule]) -> list[Instruction]:
    return [*(instruction for rule in rules for instruction in _rule(rule)), _ALLOW]


def _rule(rule: Rule) -> list[Instruction]:
    code = [_errno(rule.errno)]
    for condition in reversed(rule.conditions):
        code = _condition(condition, otherwise=len(code)) + code
    return code


def _condition(condition: Condition, *, otherwise: int) -> list[Instruction]:
    """Code that is left at its end when the condition holds, and ``otherwise`` instructions further when it does not."""
    if condition.wide:
        return _wide(condition, otherwise)
    code = [_load(condition.arg)]
    if condition.mask != _LOW:
        code.append((AND, 0, 0, condition.mask))
    if condition.test == "any_bit":
        return [*code, (JSET, 0, otherwise, condition.values[0])]
    for left, value in _counted(condition.values):
        if condition.test == "is_in":
            code.append((JEQ, left, 0 if left else otherwise, value))
        else:
            code.append((JEQ, left + otherwise, 0, value))
    return code


def _wide(condition: Condition, otherwise: int) -> list[Instruction]:
    high, low = _load(condition.arg, high=True), _load(condition.arg)
    if condition.test == "any_bit":
        bits = condition.values[0]
        return [high, (JSET, 2, 0, bits >> 32), low, (JSET, 0, otherwise, bits & _LOW)]
    code: list[Instruction] = []
    inside = condition.test == "is_in"
    for left, value in _counted(condition.values):
        equal = 4 * left + (0 if inside else otherwise)
        differs = otherwise if inside and not left else 0
        code += [high, (JEQ, 0, 2 + differs, value >> 32), low, (JEQ, equal, differs, value & _LOW)]
    return code


def _counted(values: Sequence[int]) -> list[tuple[int, int]]:
    """Each value with the number of those after it."""
    return [(len(values) - index, value) for index, value in enumerate(values, 1)]


def _load(arg: int, *, high: bool = False) -> Instruction:
    """Both architectures are little-endian: the low word comes first."""
    return (LD_ABS, 0, 0, _OFFSET_ARGS + 8 * arg + 4 * high)


def _intervals(leaves: Mapping[int, list[Instruction]], newest: int) -> list[tuple[int, list[Instruction]]]:
    """``(first number, code)`` for every stretch of numbers that is treated alike, ascending, the first at 0."""
    stretches: list[tuple[int, list[Instruction]]] = []
    unknown = [_errno(ENOSYS)]
    for number in range(newest + 2):
        code = leaves.get(number, unknown) if number <= newest else unknown
        if not stretches or stretches[-1][1] != code or len(code) > 1:
            stretches.append((number, code))
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
