"""A simulator of the BPF that the filter uses, with the kernel's checks of a program."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Instruction = tuple[int, int, int, int]
ARGUMENTS = 6
LOAD, RET, AND, JUMP = 0x20, 0x06, 0x54, 0x05
_ARGUMENTS_FROM = 16  # of struct seccomp_data
_TESTS = {0x15: lambda a, k: a == k, 0x35: lambda a, k: a >= k, 0x45: lambda a, k: bool(a & k)}


def accepted(program: Sequence[Instruction]) -> bool:
    """Whether the kernel loads it (bpf_check_classic, seccomp_check_filter). Opcodes that the filter does not use are refused."""
    if not 0 < len(program) <= 4096 or program[-1][0] != RET:
        return False
    for at, (code, jt, jf, k) in enumerate(program):
        left = len(program) - at - 1
        if code == JUMP:
            fine = k < left
        elif code in _TESTS:
            fine = max(jt, jf) < left
        elif code == LOAD:
            fine = k % 4 == 0 and k < 64
        else:
            fine = code in {RET, AND}
        if not fine:
            return False
    return True


def run(program: Sequence[Instruction], number: int, arch: int, arguments: Sequence[int] = ()) -> tuple[int, int]:
    """The action for one call, and how many instructions it took."""
    words = [*arguments, *[0] * (ARGUMENTS - len(arguments))]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, arch, 0, *(word & (1 << 64) - 1 for word in words))
    accumulator, at, steps = 0, 0, 0
    while True:
        code, jt, jf, k = program[at]
        at, steps = at + 1, steps + 1
        if code == RET:
            return k, steps
        if code == LOAD:
            accumulator = struct.unpack_from("<I", data, k)[0]
        elif code == AND:
            accumulator &= k
        elif code == JUMP:
            at += k
        else:
            at += jt if _TESTS[code](accumulator, k) else jf


def outcomes(program: Sequence[Instruction], number: int, arch: int) -> frozenset[int]:
    """All actions that some arguments of the call could lead to: at a test of an argument both ways are gone."""
    data = struct.pack("<IIQ", number & 0xFFFFFFFF, arch, 0)
    found: set[int] = set()
    todo: list[tuple[int, int | None]] = [(0, 0)]  # where, and the accumulator if no argument is in it
    seen: set[tuple[int, int | None]] = set()
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        at, known = state
        code, jt, jf, k = program[at]
        if code == RET:
            found.add(k)
        elif code == LOAD:
            todo.append((at + 1, None if k >= _ARGUMENTS_FROM else struct.unpack_from("<I", data, k)[0]))
        elif code == AND:
            todo.append((at + 1, None if known is None else known & k))
        elif code == JUMP:
            todo.append((at + 1 + k, known))
        else:
            ways = (True, False) if known is None else (_TESTS[code](known, k),)
            todo += [(at + 1 + (jt if way else jf), known) for way in ways]
    return frozenset(found)
