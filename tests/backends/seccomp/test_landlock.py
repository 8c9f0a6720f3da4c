"""Landlock rules."""

from __future__ import annotations

from isandbox_backends._shared.plan import Allow, Landlock
from isandbox_backends.seccomp import landlock
from isandbox_backends.seccomp.landlock import ALL, DEVICES, READ, WRITE, landlock_records


def test_bits_are_the_kernels() -> None:
    """The bits of linux/landlock.h, in its order, without a gap."""
    names = [
        "EXECUTE", "WRITE_FILE", "READ_FILE", "READ_DIR", "REMOVE_DIR", "REMOVE_FILE", "MAKE_CHAR", "MAKE_DIR", "MAKE_REG",
        "MAKE_SOCK", "MAKE_FIFO", "MAKE_BLOCK", "MAKE_SYM", "REFER", "TRUNCATE", "IOCTL_DEV",
    ]  # fmt: skip
    assert [getattr(landlock, name) for name in names] == [1 << bit for bit in range(16)]
    assert sum(getattr(landlock, name) for name in names) == ALL


def test_everything_is_handled_and_little_is_allowed() -> None:
    """Reading anywhere in the view, devices in /dev, writing where it was asked for; sorted, once each."""
    assert landlock_records(["/workspace", "/tmp", "/tmp"]) == [
        Landlock(ALL, 3), Allow("/", READ), Allow("/dev", DEVICES), Allow("/tmp", WRITE), Allow("/workspace", WRITE),
    ]  # fmt: skip


def test_nobody_makes_devices() -> None:
    """Device nodes are allowed nowhere, and reading allows no writing."""
    for access in (READ, WRITE, DEVICES):
        assert not access & (landlock.MAKE_CHAR | landlock.MAKE_BLOCK)
    assert not READ & (landlock.WRITE_FILE | landlock.MAKE_REG | landlock.REMOVE_FILE | landlock.TRUNCATE)


def test_a_waiver_is_explicit() -> None:
    """Waived, the record says so: the helper refuses a plan without one."""
    assert landlock_records(["/tmp"], waived=True) == [Landlock(0, 0)]
