"""Signals out of the sandbox."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

from isandbox.testing.containment.arena import Arena, Box
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.processes.attacks import TOLD_APART, host_victim, judge_by_process
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.victim import LEAST_PID, Inhabitant, Victim, inhabitant

# What is sent to a process that the probe did not start is signal 0. To everybody goes SIGURG, which does nothing to who does not
# ask for it, and only when the victim is out of reach by its number.
_SEND = (
    TOLD_APART
    + r"""
def information(number):
    return struct.pack("<iii", number, 0, -1) + bytes(116)  # siginfo_t with si_code SI_QUEUE

def ways(number):
    return {
        "kill": lambda pid: attempt(os.kill, pid, number),
        "kill of the group": lambda pid: attempt(os.kill, -pid, number),
        "tkill": lambda pid: call(NR["tkill"], pid, number),
        "tgkill": lambda pid: call(NR["tgkill"], pid, pid, number),
        "rt_sigqueueinfo": lambda pid: call(NR["rt_sigqueueinfo"], pid, number, information(number)),
        "rt_tgsigqueueinfo": lambda pid: call(NR["rt_tgsigqueueinfo"], pid, pid, number, information(number)),
    }

for pid, numbers in targets:
    for number in numbers:
        for name, send in ways(number).items():
            out["%d: %s %d" % (pid, name, number)] = on(pid, send)

heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
for name, send in ways(signal.SIGUSR1).items():
    if "group" not in name:
        controls[name] = send(os.getpid())
controls["they came"] = "ok" if heard else "nothing came"
"""
)

_EVERYBODY = r"""
import threading
ready, told = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    signal.signal(signal.SIGURG, lambda *_: os.write(told[1], b"heard"))
    os.write(ready[1], b"x")
    for _ in range(100):  # one that comes right before a sleep is handled after it
        time.sleep(0.1)
    os._exit(0)
os.read(ready[0], 1)
signal.signal(signal.SIGURG, signal.SIG_IGN)
out["kill everybody"] = attempt(os.kill, -1, signal.SIGURG)
signal.alarm(10)
controls["its own child hears it"] = "ok" if os.read(told[0], 5) == b"heard" else "no"
signal.alarm(0)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""
_PROBE_OWN = [15, 10]


@probe("B03", "Signals reach nobody outside", claim="processes")
async def signals_out(arena: Arena) -> Verdict:
    """A process of the host with the same ids gets none of the signals that are sent to its number, its group or everybody, and
    the host's own process cannot be asked for.
    """
    target = await host_victim(arena)
    numbers = {target.pid: _PROBE_OWN, os.getpid(): [0], os.getppid(): [0]}
    targets = [[pid, sent] for pid, sent in numbers.items() if _is_no_number_inside(pid)]
    out, controls = await arena.attack(_SEND, targets=targets)
    verdict = _with_harm(judge_by_process(out, controls), target)
    return verdict if verdict.outcome != "BLOCKED" else await _everybody(arena, target, verdict)


async def _everybody(arena: Arena, target: Victim, so_far: Verdict) -> Verdict:
    out, controls = await arena.attack(_EVERYBODY)
    if controls["its own child hears it"] != "ok":
        return Verdict("VACUOUS", detail=f"a signal to everybody does not reach a child: {out['kill everybody']}")
    return _with_harm(replace(so_far, outcome="CONTAINED", detail=f"a signal to everybody: its own; {so_far.detail}"), target)


def _with_harm(verdict: Verdict, target: Victim) -> Verdict:
    harm = target.harm()
    return verdict if harm.none else replace(verdict, outcome="LEAK", detail=f"the victim: {harm}; {verdict.detail}")


def _is_no_number_inside(pid: int) -> bool:
    return pid >= LEAST_PID


# The end is asked for by the loop: of two signals that wait Python handles the one with the lower number first.
_LISTENER = """
import signal, time
ended = []
signal.signal(signal.SIGURG, lambda *_: print("heard", flush=True))
signal.signal(signal.SIGUSR2, lambda *_: ended.append(1))
for _ in range(1200):
    if ended:
        break
    time.sleep(0.05)
"""

_UNSEEN = Verdict("VACUOUS", detail="the host does not see processes of this sandbox, so it cannot end the listener")


async def _listener(arena: Arena, box: Box) -> Inhabitant | None:
    """One that listens already, for a signal that comes before is lost; none where the host does not see it do so."""
    other = await inhabitant(arena, box, program=_LISTENER)
    for _ in range(500 if other.seen else 0):
        if _catches(other.seen[0].pid, signal.SIGUSR2):  # the last that it asks for
            return other
        await asyncio.sleep(0.02)
    return None


def _catches(pid: int, number: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


_NEIGHBOURS = r"""
for directory in sorted(os.listdir("/proc")):
    if directory.isdigit() and int(directory) != os.getpid():
        arguments = content("/proc/%s/cmdline" % directory).split("\0")
        out["command line of " + directory] = "ok" if marker in arguments else "ENOENT"
controls["it sees itself"] = "ok" if "python" in content("/proc/self/cmdline") else "no"
"""


@probe("B03-neighbour", "Another sandbox's processes are neither seen nor signalled", claim="neighbours")
async def neighbours(arena: Arena) -> Verdict:
    """A process of a second sandbox does not appear in the first one's /proc, its number on the host means nothing there, and a
    signal to everybody does not get to it.
    """
    other = await _listener(arena, await arena.create())
    if other is None:
        return _UNSEEN
    out, controls = await arena.attack(_NEIGHBOURS, marker=other.marker)
    targets = [[process.pid, [0]] for process in other.seen if _is_no_number_inside(process.pid)]
    sent, heard = await arena.attack(_SEND, targets=targets)
    verdict = judge_by_process({**out, **sent}, {**controls, **heard})
    if verdict.outcome != "BLOCKED":
        return verdict
    await arena.attack(_EVERYBODY)
    other.seen[0].send_signal(signal.SIGUSR2)
    result = await other.result()
    if "heard" in result.stdout:
        return Verdict("LEAK", detail="a signal to everybody reached the other sandbox")
    return replace(verdict, outcome="CONTAINED")


_TO_THE_GROUP = """
signal.signal(signal.SIGURG, signal.SIG_IGN)
out["to its group"] = attempt(os.kill, 0, signal.SIGURG)
controls["to itself"] = attempt(os.kill, os.getpid(), 0)
"""


@probe("B03-command", "A signal to its group does not leave a command", claim="lifetime")
async def commands(arena: Arena) -> Verdict:
    """Two commands of one sandbox are of two process groups: what a shell sends to its own when it ends reaches nobody else."""
    box = await arena.box()
    other = await _listener(arena, box)
    if other is None:
        return _UNSEEN
    out, controls = await arena.attack(_TO_THE_GROUP, box=box)
    other.seen[0].send_signal(signal.SIGUSR2)
    result = await other.result()
    if "heard" in result.stdout:
        return Verdict("LEAK", detail=f"the other command heard it; {out['to its group']}")
    return judge(out, controls, refused={"ok"}, by={"ok": "a group of its own"}, stopped="CONTAINED")
