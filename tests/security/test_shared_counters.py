"""Attacks on what the kernel counts for a user or for the whole machine: a sandbox gets a share, never all of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from isandbox import Quotas
from isandbox_backends._shared.plan import IdMaps, IdUse, Record, Sysctl

pytestmark = pytest.mark.native

Edit = Callable[[list[Record]], list[Record]]

INOTIFY = """
count = 0
while count < 1000 and libc.inotify_init() >= 0:
    count += 1
print(count, flush=True)
time.sleep(30)
"""


def without_bound(plan: list[Record]) -> list[Record]:
    return [record for record in plan if not isinstance(record, Sysctl)]


def without_either(plan: list[Record]) -> list[Record]:
    """Nor with an owner of its own for the namespace, which only root's have."""
    kept = without_bound(plan)
    return [replace(record, use=record.use & ~IdUse.OWNER) if isinstance(record, IdMaps) else record for record in kept]


@pytest.mark.parametrize("edit", [None, without_bound, without_either])
def test_inotify_instances_of_the_user(make: Any, edit: Edit | None) -> None:
    """A sandbox that takes all the inotify instances it can leaves some for the user who runs it and for other sandboxes: by
    the bound on its namespace, and for root's by the owner of the namespace too. Without both it leaves none.
    """
    box, other = make(edit=edit), make(edit=edit)
    attacker = box.start(["python3", "-c", "import ctypes, time\nlibc = ctypes.CDLL(None)\n" + INOTIFY])
    taken = int(next(iter(attacker))[1])
    if edit is not None and taken == 1000:
        pytest.skip("this machine gives each user more instances than a process may have descriptors")
    libc = ctypes.CDLL(None)
    ours = libc.inotify_init()
    if ours >= 0:
        os.close(ours)
    theirs = int(other.exec(["python3", "-c", "import ctypes; print(ctypes.CDLL(None).inotify_init())"]).stdout)
    attacker.kill()
    left = edit is None or (edit is without_bound and os.geteuid() == 0)
    assert (ours >= 0, theirs >= 0) == (left, left)
    assert taken <= 32 or edit is not None


def test_terminals_of_the_machine(make: Any) -> None:
    """A sandbox that takes all the terminals it can ends at its share."""
    program = "import os\nn = 0\ntry:\n  while n < 2000: os.open('/dev/ptmx', 2 | 256); n += 1\nexcept OSError as e: print(e.errno, n)"
    assert make(quotas=Quotas(open_files=4096)).exec(["python3", "-c", program]).stdout == "28 256\n"


def test_priorities_above_the_normal_one_are_off(make: Any) -> None:
    """A command cannot take a real-time priority or a lower niceness, also where the host may."""
    before = {which: resource.getrlimit(which) for which in (13, 14)}  # RLIMIT_NICE, RLIMIT_RTPRIO
    try:
        for which in before:
            with contextlib.suppress(ValueError):  # not even root may everywhere
                resource.setrlimit(which, (30, 30))
        program = "import os, resource\nprint(resource.getrlimit(13), resource.getrlimit(14))\n"
        program += "for f in (lambda: os.sched_setscheduler(0, 1, os.sched_param(1)), lambda: os.nice(-5)):\n"
        program += "  try: f(); print('ok')\n  except PermissionError: print('refused')"
        assert make().exec(["python3", "-c", program]).stdout == "(0, 0) (0, 0)\nrefused\nrefused\n"
    finally:
        for which, limits in before.items():
            resource.setrlimit(which, limits)


def test_a_fork_of_the_host_does_not_hold_a_commands_input(make: Any) -> None:
    """A command sees the end of its input when the host closes it, also while a forked child of the host lives."""
    process = make().start("cat; echo ended")
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    try:
        process.close_stdin()
        start = time.monotonic()
        assert process.wait().stdout == "ended\n"
        assert time.monotonic() - start < 20
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
