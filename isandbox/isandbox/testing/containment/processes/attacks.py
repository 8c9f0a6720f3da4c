"""What the attacks on processes share: whether it was a filter that refused, and the victims to try them on."""

from __future__ import annotations

from collections.abc import Mapping

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.inside import Answers
from isandbox.testing.containment.judge import REFUSED, judge
from isandbox.testing.containment.records import Outcome, Verdict
from isandbox.testing.containment.victim import Victim, inhabitant, victim

# No process ever has this number: PID_MAX_LIMIT of linux/threads.h. A call that refuses it with EPERM did not look for the
# process, so its refusal of others is no matter of who they are.
NOBODY = 1 << 22
TOLD_APART = (
    f"NOBODY = {NOBODY}\n"
    r"""
def on(pid, attack):
    "What an attack on a process answers; in one word with 'filter' where a process that is not there gets the same refusal."
    answer = attack(pid)
    if answer in ("EPERM", "ENOSYS") and attack(NOBODY) == answer:
        return "filter " + answer
    return answer

def signalled(answer):
    return answer if answer.startswith("E") else "filter SIGSYS" if answer == "signal %d" % signal.SIGSYS else answer
"""
)
FILTERED = frozenset({"filter EPERM", "filter ENOSYS", "filter SIGSYS"})
BY_PROCESS = {
    **dict.fromkeys(FILTERED, "system call filter"),
    "ESRCH": "pid namespace",
    "ENOENT": "pid namespace",
    "EPERM": "other user, or not dumpable",
    "EACCES": "other user, or not dumpable",
}


def judge_by_process(
    out: Answers, controls: Answers, *, by: Mapping[str, str] | None = None, stopped: Outcome = "BLOCKED"
) -> Verdict:
    """`judge`, for answers of `TOLD_APART`."""
    return judge(out, controls, refused=REFUSED | FILTERED, by={**BY_PROCESS, **(by or {})}, stopped=stopped)


async def host_victim(arena: Arena) -> Victim:
    """A process of the host, as root with the ids that commands of the sandbox have out there, when they can be seen."""
    inside = await inhabitant(arena, await arena.box())
    return await victim(arena, like=inside.seen[0] if inside.seen else None)
