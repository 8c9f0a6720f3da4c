"""Processes and threads: how many, and what still works when there can be no more."""

from __future__ import annotations

import asyncio
from functools import partial

from isandbox.errors import SandboxError
from isandbox.policy import Quotas
from isandbox.records import ExecResult
from isandbox.sandbox import ISandbox
from isandbox.testing.containment.arena import Arena, Box
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.inside import parse
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.resources.quota import alive, holder, tells, until_told

PIDS = 32
# Where the kernel counts a sandbox's own helper among them, one of its processes may end just after it was allowed for.
SPARE = 2

# Each child waits for the pipe's other end to close, and for its alarm.
_CHILDREN = """
wait, go = os.pipe()
children = []
said = "ok"
for _ in range(count):
    try:
        child = os.fork()
    except OSError as error:
        said = word(error.errno)
        break
    if child == 0:
        signal.alarm(20)
        os.close(go)
        os.read(wait, 1)
        os._exit(0)
    children.append(child)
out["more than the quota"] = said
out["made"] = len(children)
time.sleep(hold)
os.close(go)
for child in children:
    os.waitpid(child, 0)
"""
# Goes on where it was refused: whoever ran for a moment leaves room that is taken as well.
_FILL = """
made, end = 0, time.monotonic() + seconds
while made < count and time.monotonic() < end:
    try:
        if os.fork() == 0:
            signal.alarm(20)
            time.sleep(20)
            os._exit(0)
        made += 1
    except OSError:
        time.sleep(0.005)
time.sleep(max(0, end - time.monotonic()))
"""
_THREADS = """
import threading
end, made, said = threading.Event(), [], "ok"
threading.stack_size(1 << 16)
for _ in range(count):
    thread = threading.Thread(target=end.wait, args=(20,))
    try:
        thread.start()
    except RuntimeError:
        said = "EAGAIN"
        break
    made.append(thread)
out["more than the quota"] = said
out["made"] = len(made)
time.sleep(hold)
end.set()
for thread in made:
    thread.join()
"""


@probe("C08", "Processes and threads end at their quota", claim="quotas.pids")
async def bounded_number(arena: Arena) -> Verdict:
    """Of 32 there is no 33rd, processes and threads alike; it is told, is no fault, and is over when they have ended."""
    box = await arena.create(quotas=Quotas(pids=PIDS))
    checks = Checks()
    for kind, body in (("processes", _CHILDREN), ("threads", _THREADS)):
        few = await arena.run(body, box=box, count=4, hold=0)
        checks.control(f"four {kind}", few.ok and parse(few.stdout_bytes)[0]["made"] == "4", few.stderr[-200:])
        result = await until_told(arena, box, "pids", partial(_eighty, arena, box, body))
        answers = parse(result.stdout_bytes)[0] if result.exit_code == 0 else {}
        made = int(answers.get("made", 0))
        checks.hold(f"80 {kind} are refused", answers.get("more than the quota") == "EAGAIN", answers or result.stderr[-200:])
        checks.hold(f"{PIDS} {kind} at most", made < PIDS + SPARE, made)
        checks.control(f"many {kind} were made", made > PIDS // 2, made)
        checks.hold(f"the limit is told for {kind}", tells(arena, box, "pids", result), sorted(result.limits_hit))
        checks.hold("no fault", result.fault is None, result.fault)
    checks.hold("there is room again", await alive(arena, box))
    return checks.verdict("BLOCKED", holder(arena, box, "pids"))


async def _eighty(arena: Arena, box: Box, body: str, hold: float) -> ExecResult:
    return await arena.run(body, box=box, count=80, hold=hold)


@probe("C08-full", "A sandbox that is full of processes still answers", claim="quotas.pids")
async def full_sandbox(arena: Arena) -> Verdict:
    """While there can be no more processes every call is answered, files are read, and a cancelled bomb makes room."""
    box = await arena.create(quotas=Quotas(pids=PIDS))
    checks = Checks()
    checks.control("it answers while it is empty", not await _refused(arena, box))
    if isinstance(box, ISandbox):
        await box.write("kept", b"kept")
    bomb = asyncio.create_task(arena.run(_FILL, box=box, count=80, seconds=20))
    refused = 0
    for _ in range(200):
        refused += await _refused(arena, box)
        if refused >= 3 or bomb.done():
            break
        await asyncio.sleep(0.02)
    # Where each command has a sandbox of its own, another one is not refused: then nothing is shown.
    (checks.hold if isinstance(box, ISandbox) else checks.control)("it is full", refused >= 3, refused)
    if isinstance(box, ISandbox):
        checks.hold("a file is read", await box.read("kept") == b"kept")
        checks.hold("it can be looked at", (await box.metrics()).processes > 0)
    bomb.cancel()
    (end,) = await asyncio.gather(bomb, return_exceptions=True)
    checks.hold("the bomb was ended", isinstance(end, asyncio.CancelledError), end)
    checks.hold("there is room again", await alive(arena, box))
    return checks.verdict("CONTAINED", holder(arena, box, "pids"))


async def _refused(arena: Arena, box: Box) -> bool:
    """Whether a command that needs two processes was refused one; an answer in any case."""
    try:
        result = await box.exec(["sh", "-c", "sleep 0; echo ran"], timeout=20.0)
    except SandboxError:
        return True
    arena.saw(result)
    return result.stdout != "ran\n"
