"""A command that a test finds again among all processes of a machine that others use too; a process that cannot open files."""

from __future__ import annotations

import contextlib
import resource
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import psutil
import pytest


class Nap:
    """A ``sleep`` that no other process of this machine does: compared whole, so no other command line can look like it."""

    def __init__(self) -> None:
        self.argv = ["sleep", f"1{secrets.randbelow(10**4):04}.{secrets.randbelow(10**9):09}"]

    def __str__(self) -> str:
        return " ".join(self.argv)

    def running(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.cmdline() == self.argv and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def soon(self, count: int) -> bool:
        """Whether so many run within some seconds; none, or at least that number."""
        end = time.monotonic() + 20
        while True:
            now = len(self.running())
            if (now == 0) if count == 0 else (now >= count):
                return True
            if time.monotonic() > end:
                return False
            time.sleep(0.02)


@pytest.fixture
def nap() -> Iterator[Nap]:
    """Nobody may do it in the end."""
    made = Nap()
    yield made
    left = made.running()
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    assert not left, f"{len(left)} processes were left behind"


@pytest.fixture
def exhausted() -> Callable[[], AbstractContextManager[None]]:
    """``with exhausted():`` this process can open no file; those that are open stay so."""

    @contextlib.contextmanager
    def without_descriptors() -> Iterator[None]:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    return without_descriptors
