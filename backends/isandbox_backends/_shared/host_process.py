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


class Inherited(Protocol):
    def abandon(self) -> None:
        """After a fork, in the child: close the descriptors and touch nothing else."""


class Open(Protocol):
    def end(self) -> None:
        """At exit: end it quietly, without waiting long."""


_inherited: weakref.WeakSet[Inherited] = weakref.WeakSet()
_open: weakref.WeakSet[Open] = weakref.WeakSet()


def remember(handle: Inherited) -> None:
    """A forked child is to abandon it."""
    _inherited.add(handle)


def forget(handle: Inherited) -> None:
    _inherited.discard(handle)


def end_at_exit(sandbox: Open) -> None:
    """It is ended when the interpreter goes down, unless it was closed before: ending it twice must be nothing."""
    _open.add(sandbox)


def _in_forked_child() -> None:
    # The parent's sandboxes are not ours: a copy of a control socket here would keep them alive after the parent's death.
    for handle in list(_inherited):
        handle.abandon()
    _inherited.clear()
    _open.clear()


def _at_exit() -> None:
    for sandbox in list(_open):
        with contextlib.suppress(Exception):  # the interpreter goes down; there is nobody left to tell
            sandbox.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
atexit.register(_at_exit)
