"""A simulator of the BPF that the filter uses, with the kernel's checks of a program."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Instruction = tuple[int, int, int, int]
ARGUMENTS = 6


def check(program: Sequence[Instruction]) -> None:
    """What the kernel refuses (seccomp_check_filter, bpf_check_classic)."""
    assert 0 < len(program) <= 4096
    for at, (code, jt, jf, k) in enumerate(program):
        assert 0 <= jt <= 255
        assert 0 <= jf <= 255
        assert 0 <= k <= 0xFFFFFFFF
        left = len(program) - at - 1
        if code == 0x05:
            assert k < left
        elif code in {0x15, 0x35, 0x45}:
            assert max(jt, jf) < left
        elif code == 0x20:
            assert k % 4 == 0
            assert k < 64
        else:
            assert code in {0x06, 0x54}, hex(code)
    assert program[-1][0] == 0x06


def run(program: Sequence[Instruction], number: int, arch: int, arguments: Sequence[int] = ()) -> tuple[int, int]:
    """The action for one call, and how many instructions it took."""
    words = [*arguments, *[0] * (ARGUMENTS - len(arguments))]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, arch, 0, *(word & (1 << 64) - 1 for word in words))
    accumulator, at, steps = 0, 0, 0
    while True:
        code, jt, jf, k = program[at]
        at, steps = at + 1, steps + 1
        if code == 0x06:
            return k, steps
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, k)[0]
        elif code == 0x54:
            accumulator &= k
        elif code == 0x05:
            at += k
        else:
            true = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[code]
            at += jt if true else jf
