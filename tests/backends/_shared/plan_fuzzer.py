"""Gives plans to the real helper, as an ordinary user, and says what became of each. Run by test_hostile_plans.py.

A process of its own, so that it can give up root before anything is tried and reap whatever the helper starts. Plans come
one per line in hexadecimal on stdin; one word per plan goes to stdout.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time

from isandbox.policy import Policy
from isandbox_backends._shared.helper import helper_path
from isandbox_backends._shared.plan import encode_plan
from isandbox_backends._shared.portable import anonymous_file
from isandbox_backends._shared.protocol import Decoder, Hello, StartFailed
from isandbox_backends.seccomp.backend import compile_plan
from isandbox_backends.seccomp.covers import Source
from isandbox_backends.seccomp.ids import single

NOBODY = 54321
DEADLINE = 20.0


def give_up_root() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def answer(ours: socket.socket, until: float) -> str:
    """The first word that decides: hello, error, end (the helper is gone) or hang."""
    decoder, poll = Decoder(), select.poll()
    poll.register(ours, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        if not poll.poll(left * 1000):
            continue
        data = ours.recv(4096)
        if not data:
            return "end"
        for reply in decoder.feed(data):
            if isinstance(reply, (Hello, StartFailed)):
                return "hello" if isinstance(reply, Hello) else f"error:{reply.stage}".replace(" ", "-")
    return "hang"


def reap(until: float) -> str | None:
    """Wait for every child; a death by signal, or a child that does not end, is the word for this plan."""
    bad = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return bad
        if pid == 0:
            if time.monotonic() > until:
                return "hang-at-the-end"
            time.sleep(0.001)
        elif os.WIFSIGNALED(status):
            bad = f"signal:{signal.Signals(os.WTERMSIG(status)).name}"


def attempt(helper: int, plan: bytes) -> str:
    plan_fd = anonymous_file("isandbox-plan", plan, sealed=True)
    ours, theirs = socket.socketpair()
    actions = [(os.POSIX_SPAWN_DUP2, plan_fd, 3), (os.POSIX_SPAWN_DUP2, theirs.fileno(), 4)]
    os.posix_spawn(f"/proc/self/fd/{helper}", ["isandbox-helper"], {}, file_actions=actions)
    os.close(plan_fd)
    theirs.close()
    until = time.monotonic() + DEADLINE
    with ours:
        word = answer(ours, until)
    return reap(until + DEADLINE) or word


def main() -> None:
    path = helper_path()
    assert path is not None
    # Descriptors 3 and 4 are the helper's; these stand above them. An open file needs no way to it.
    for fd in (3, 4):
        os.open("/dev/null", os.O_RDONLY) if not os.path.exists(f"/proc/self/fd/{fd}") else None
    helper = os.open(path, os.O_PATH)
    give_up_root()
    workspace = Source(sys.argv[1], "/workspace", writable=True, is_dir=True)
    print(encode_plan(compile_plan(Policy(), workspace, [], single(os.geteuid(), os.getegid()))).hex(), flush=True)
    for line in sys.stdin:
        print(attempt(helper, bytes.fromhex(line)), flush=True)


if __name__ == "__main__":
    main()
