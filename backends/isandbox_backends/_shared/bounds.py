"""What a number of a helper's can be before it is believed; each function raises `ValueError` for another."""

from __future__ import annotations

# MAX_ERRNO of linux/err.h, PID_MAX_LIMIT. Python takes neither past 31 bits.
_ERRNO_MAX = 4095
_PID_MAX = 1 << 22
_SIGNAL_MAX = 64  # _NSIG
_OFFSET_MAX = 1 << 61  # `Offsets` end at 1 << 63

ROOT_IDS = range(0x7800_0000, 0x7FFE_0000)
"""Uids of root's sandboxes, which are nobody else's: `seccomp.ids` says why these."""


def bounded_death(status: int) -> int:
    """A wait status that says how a process ended: its exit code, or a signal's number and whether core was dumped."""
    exited = not status & ~0xFF00
    signalled = not status & ~0xFF and 1 <= status & 0x7F <= _SIGNAL_MAX
    if not exited and not signalled:
        raise ValueError(f"not the end of a process: {status}")
    return status


def bounded_errno(number: int) -> int:
    if number > _ERRNO_MAX:
        raise ValueError(f"no errno: {number}")
    return number


def bounded_offset(number: int) -> int:
    """Bytes of a stream: few enough that two of them and all that a host has read are an offset that it can ask for."""
    if number > _OFFSET_MAX:
        raise ValueError(f"no offset: {number}")
    return number


def bounded_pid(number: int) -> int:
    if not 0 < number <= _PID_MAX:
        raise ValueError(f"no pid: {number}")
    return number


def exactly(payload: bytes, length: int) -> bytes:
    if len(payload) != length:
        raise ValueError(f"{len(payload)} bytes, not {length}")
    return payload
