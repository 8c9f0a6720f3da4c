"""Open files of the host process."""

from __future__ import annotations

import contextlib
import os
import resource
import socket

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.filesystem.hostfiles import number
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_MOST = 1100

_LIST = """
import fcntl
controls["standard streams"] = "ok" if all(attempt(os.fstat, fd) == "ok" for fd in (0, 1, 2)) else "not open"
mine = os.open("/dev/null", os.O_RDONLY)
controls["one of its own"] = attempt(fcntl.fcntl, mine, fcntl.F_GETFD)
os.close(mine)
held = []
for fd in range(3, highest):
    if attempt(fcntl.fcntl, fd, fcntl.F_GETFD) == "ok":
        held.append(fd)
for fd in held[:100]:
    try:
        os.set_blocking(fd, False)
        sys.stdout.write(os.read(fd, 64).decode("latin-1"))
    except OSError:
        pass
    out["descriptor %d" % fd] = "inherited"
    if attempt(os.listdir, fd) == "ok":
        out["up from %d" % fd] = attempt(lambda: os.close(os.open("..", os.O_RDONLY, dir_fd=fd)))
for fd in (0, 1, 2):
    status = os.fstat(fd)
    same = "%d %d" % (status.st_dev, status.st_ino) == hosts[fd] and not (stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3))
    out["stream %d" % fd] = "the host's" if same else "its own"
out["count"] = len(held)
"""


@probe("A23", "No open file of the host is inherited", claim="descriptors")
async def inherited(arena: Arena) -> Verdict:
    """With hundreds of descriptors open and inheritable in the host process (files, directories, sockets, memory, a pidfd),
    there are three inside, and those are not the host's own streams. The figure counts the others.
    """
    path, _ = arena.plant("canary")
    opened = _open_everything(arena, str(path))
    out, controls = await arena.attack(_LIST, highest=opened + 200, hosts=[number(fd) for fd in (0, 1, 2)])
    figures = {"inherited_descriptors": int(out.pop("count"))}
    verdict = judge(out, controls, refused={"its own"}, by={"its own": "every descriptor closed"})
    return Verdict(verdict.outcome, verdict.mechanism, f"{opened} were open; {verdict.detail}", figures)


def _open_everything(arena: Arena, canary: str) -> int:
    """Inheritable descriptors of every kind, closed when the probe ends; how many are open in all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST + 256 if hard == resource.RLIM_INFINITY else min(_MOST + 256, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        arena.stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    found = [os.open(canary, os.O_RDONLY), os.open(os.path.dirname(canary), os.O_RDONLY), os.memfd_create("canary", 0)]
    with contextlib.suppress(OSError):
        found.append(os.pidfd_open(os.getpid()))
    listener = arena.listen(("127.0.0.1", 0))
    found.append(os.dup(listener.fileno()))
    pair = socket.socketpair()
    found += [side.detach() for side in pair]
    # Room for the sandbox itself, which needs descriptors too.
    found += [os.dup(found[0]) for _ in range(max(0, min(_MOST, wanted - 200) - found[-1]))]
    for fd in found:
        arena.stack.callback(os.close, fd)
        os.set_inheritable(fd, True)
    return len(os.listdir("/proc/self/fd"))
