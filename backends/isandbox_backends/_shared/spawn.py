"""Executing a helper, and waiting for children without a descriptor for them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from types import MappingProxyType
from typing import TYPE_CHECKING

from isandbox_backends._shared.portable import anonymous_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox_backends._shared.helper import HelperProgram

# Descriptors of the helper, beside the plan and the socket (base.h).
CLAIM_FD, OUTER_FD, LISTEN_FD, LOCK_FD, NOTE_FD = 5, 6, 7, 8, 9
NOTHING: Mapping[int, int] = MappingProxyType({})


def spawn(program: HelperProgram, plan: bytes, inherited: Mapping[int, int], names: tuple[str, ...] = ()) -> int:
    """Start the helper; its pid. ``inherited`` has the control socket, as 4. ``names``: the end of its argv, for who looks at
    processes. Raises `OSError`.
    """
    plan_fd = anonymous_file("isandbox-plan", plan, sealed=True)
    free = max(inherited) + 1
    try:
        copies: list[int] = []
        try:
            actions = []
            for target, source in {3: plan_fd, **inherited}.items():
                if source < free:  # another dup2 would overwrite it
                    source = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, free)  # noqa: PLW2901
                    copies.append(source)
                actions.append((os.POSIX_SPAWN_DUP2, source, target))
            return os.posix_spawn(program.path, (*program.argv, *names), program.env, file_actions=actions)
        finally:
            for copy in copies:
                os.close(copy)
    finally:
        os.close(plan_fd)


def ended_within(pid: int, timeout: float) -> bool:
    """Without a pidfd: ask until it has ended, and reap it."""
    until, pause = time.monotonic() + timeout, 0.0001
    with contextlib.suppress(ChildProcessError):  # reaped by somebody else
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.005)
    return True


def collect(pid: int) -> None:
    """Reap a child that has ended; nothing when somebody else has: a host with SIGCHLD ignored, or one that waits for any child."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
