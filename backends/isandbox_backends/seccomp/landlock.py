"""Landlock rules for the sandbox's own view: reads anywhere in it, writes where the policy says. Pure.

A second layer: the mounts already say the same. Bits are those of linux/landlock.h; the helper leaves out what an older
kernel does not know.
"""

from __future__ import annotations

from collections.abc import Iterable

from isandbox_backends._shared.plan import Allow, Landlock, Record

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL = 1, 2

ALL = (1 << 16) - 1
READ = EXECUTE | READ_FILE | READ_DIR
WRITE = ALL & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
DEVICES = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV


def landlock_records(writable: Iterable[str], *, waived: bool = False) -> list[Record]:
    """``writable``: absolute paths inside that may be written below."""
    if waived:
        return [Landlock(0, 0)]
    records: list[Record] = [
        Landlock(ALL, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL),
        Allow("/", READ),
        Allow("/dev", DEVICES),
    ]
    return records + [Allow(path, WRITE) for path in sorted(set(writable))]
