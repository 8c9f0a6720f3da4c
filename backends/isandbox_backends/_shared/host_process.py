"""What a library inside somebody else's process owes it: nothing leaks into forks, nothing is left at exit."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import weakref
from typing import Protocol

log = logging.getLogger("isandbox")
log.addHandler(logging.NullHandler())


class Handle(Protocol):
    def abandon(self) -> None:
        """After a fork, in the child: close the descriptors and touch nothing else."""

    def end(self) -> None:
        """At exit: end it quietly, without waiting long."""


_live: weakref.WeakSet[Handle] = weakref.WeakSet()


def remember(handle: Handle) -> None:
    _live.add(handle)


def forget(handle: Handle) -> None:
    _live.discard(handle)


def _in_forked_child() -> None:
    # The parent's sandboxes are not ours: a copy of a control socket here would keep them alive after the parent's death.
    for handle in list(_live):
        handle.abandon()
    _live.clear()


def _at_exit() -> None:
    for handle in list(_live):
        with contextlib.suppress(Exception):  # the interpreter goes down; there is nobody left to tell
            handle.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
atexit.register(_at_exit)
