"""CPU: how much of it, and that nobody else waits for ever."""

from __future__ import annotations

import asyncio
import os

from isandbox.policy import Quotas
from isandbox.records import ExecResult
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.inside import parse
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.resources.quota import alive, enforcement, holder

# By the wall clock, so that a bound that does not hold costs no longer than one that does.
_SPIN = """
if widen:
    attempt(os.sched_setaffinity, 0, range(os.cpu_count()))
read, write = os.pipe()
end = time.monotonic() + seconds
children = []
for _ in range(count):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        seen = set()
        while time.monotonic() < end:
            seen.add(libc.sched_getcpu())
        os.write(write, json.dumps(sorted(seen)).encode() + b"\\n")
        os._exit(0)
    children.append(child)
os.close(write)
for child in children:
    os.waitpid(child, 0)
with os.fdopen(read) as said:
    out["cpus"] = len(set(cpu for line in said for cpu in json.loads(line)))
"""
# Parents end first, so that nobody waits for the ones who burn.
_ORPHANS = """
for _ in range(40):
    if os.fork() == 0:
        if os.fork() == 0:
            end = time.process_time() + 0.1
            while time.process_time() < end:
                pass
        os._exit(0)
    os.wait()
    time.sleep(0.08)
out["spun"] = "ok"
"""


# Seconds of CPU time, for a quota of 0.4.
_LATE = 3.5


async def _spin(arena: Arena, *, widen: bool) -> Verdict:
    cpus = os.cpu_count() or 1
    if cpus < 2:
        return Verdict("VACUOUS", detail="this machine has one CPU: there is no second one to take")
    box = await arena.create(quotas=Quotas(cpus=1))
    other = await arena.create()

    async def meanwhile() -> bool:
        await asyncio.sleep(0.1)
        return await alive(arena, other)

    bomb = arena.run(_SPIN, box=box, count=2 * cpus, seconds=0.6, widen=widen)
    result, beside = await asyncio.gather(bomb, meanwhile())
    checks = Checks()
    checks.control("it spun", result.ok and result.cpu_time > 0.1, f"{result.cpu_time:.2f} s, {result.stderr[-200:]}")
    share = _share(result)
    checks.hold("one CPU at most", share <= 1.1, f"{share:.2f}")
    used = int(parse(result.stdout_bytes)[0]["cpus"]) if result.ok else 0
    if "affinity" in enforcement(arena, box, "cpus").note:
        checks.hold("on one CPU", used <= 1, used)
    elif used > 1:  # more than one CPU is fine if the time is bounded, which only shows where there is time to be had
        free = await arena.run(_SPIN, box=other, count=2 * cpus, seconds=0.6, widen=False)
        checks.control("without a quota it would be more", _share(free) > 1.2, f"{_share(free):.2f}")
    checks.hold("another sandbox is answered meanwhile", beside)
    return checks.verdict("CONTAINED", holder(arena, box, "cpus"), f"{share:.2f} CPUs, on {used}")


def _share(result: ExecResult) -> float:
    return result.cpu_time / max(result.duration, 0.001)


@probe("C10", "Busy processes get the CPUs of their quota, not more", claim="quotas.cpus")
async def spinning(arena: Arena) -> Verdict:
    """Twice as many busy loops as there are CPUs use one at most, and another sandbox is answered meanwhile."""
    return await _spin(arena, widen=False)


@probe("C10-widen", "A command cannot give itself more CPUs", claim="privileges")
async def widening(arena: Arena) -> Verdict:
    """The same, after a try to run on every CPU."""
    return await _spin(arena, widen=True)


@probe("C10-time", "CPU time ends at its quota", claim="quotas.cpu_time")
async def cpu_time(arena: Arena) -> Verdict:
    """One process, and orphans one after the other, end with fault ``cpu``; a sleeper has none."""
    box = await arena.create(quotas=Quotas(cpu_time=0.4))
    checks = Checks()
    idle = await box.exec(["sleep", "0.5"], timeout=20.0)
    arena.saw(idle)
    checks.control("who sleeps uses none", idle.ok, idle.fault)
    one = await arena.run(_SPIN, box=box, count=1, seconds=15, widen=False)
    checks.control("the loop ran", one.cpu_time > 0.1, one.stderr[-200:])
    checks.hold("a busy loop ends", one.fault == "cpu", f"exit {one.exit_code}, fault {one.fault}")
    # Where nobody looked at it in time, the kernel ends each process one second later.
    checks.hold("each process ends soon after", one.cpu_time < _LATE, f"{one.cpu_time:.1f} s")
    orphans = await arena.run(_ORPHANS, box=box)
    checks.hold("busy orphans end", orphans.fault == "cpu", f"exit {orphans.exit_code}, fault {orphans.fault}")
    checks.hold("the sandbox goes on", await alive(arena, box))
    return checks.verdict("CONTAINED", holder(arena, box, "cpu_time"))
