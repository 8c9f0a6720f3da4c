"""What a crash leaves behind, and where."""

from __future__ import annotations

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_CRASH = """
import resource

def crashed():
    "The status of a child that has asked for all that it may have, and then fails."
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os.chdir(where)
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        os.abort()
    return os.waitpid(child, 0)[1]

where = place()
status = crashed()
controls["it crashed"] = "ok" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT else "%x" % status
out["memory image"] = "written" if os.WCOREDUMP(status) else "none"
out["files"] = " ".join(os.listdir(where)) or "none"
"""


@probe("A16-core", "A crash writes no image and wakes no handler of the host", claim="kernel")
async def crash(arena: Arena) -> Verdict:
    """A program that fails is not dumped, however high it sets its own limit: on many machines ``core_pattern`` starts a program
    of the host for that, as root and outside of every sandbox.
    """
    out, controls = await arena.attack(_CRASH)
    return judge(out, controls, refused={"none"}, by={"none": "limit on core dumps"})
