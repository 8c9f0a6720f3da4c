"""Memory: of one process, of many, of files that live in memory, and what its end does to others."""

from __future__ import annotations

import asyncio
from pathlib import Path

from isandbox.policy import Quotas
from isandbox.records import ExecResult
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.inside import parse
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.resources.quota import MIB, alive, enforcement, holder

QUOTA = 64 * MIB

# `touch` is slow enough for a watcher to look, and `hold` is a moment for one that looks seldom.
_MEMORY = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
kept = []
def touch(mib):
    try:
        for _ in range(mib):
            kept.append(bytearray(b"x") * (1 << 20))
            time.sleep(0.001)
    except MemoryError:
        return "ENOMEM"
    return "ok"
"""
_ONE = """
controls["a part of it"] = touch(4)
out["all of it"] = touch(mib - 4)
if out["all of it"] == "ok":
    time.sleep(hold)
"""
_MANY = """
read, write = os.pipe()
wait, go = os.pipe()
children = []
for _ in range(count):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os.close(read); os.close(go)
        os.write(write, b"." if touch(mib) == "ok" else b"!")
        os.close(write)
        os.read(wait, 1)
        os._exit(0)
    children.append(child)
os.close(write); os.close(wait)
said = b""
while len(said) < count:
    piece = os.read(read, 64)
    if not piece:
        break
    said += piece
controls["some of it"] = "ok" if b"." in said else "nothing"
out["all of it"] = "ok" if said == b"." * count else "ENOMEM"
if out["all of it"] == "ok":
    time.sleep(hold)
os.close(go)
for child in children:
    os.waitpid(child, 0)
"""
_SCRATCH = """
import tempfile
def kind(path):
    best = ("", "")
    for line in open("/proc/self/mounts"):
        fields = line.split()
        if (path + "/").startswith(fields[1].rstrip("/") + "/") and len(fields[1]) >= len(best[0]):
            best = fields[1], fields[2]
    return best[1]
files, written = [], 0
for place in ["/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~"), os.getcwd()]:
    if kind(os.path.realpath(place)) != "tmpfs":
        continue
    try:
        file = tempfile.TemporaryFile(dir=place, buffering=0)
        files.append(file)
        for _ in range(mib):
            written += file.write(bytes(1 << 20))
            time.sleep(0.001)
    except OSError as error:
        out[place] = word(error.errno)
    else:
        out[place] = "ok"
controls["written"] = "ok" if written >= 1 << 20 else "no temporary file system"
out["memory beside it"] = touch(mib)
time.sleep(hold)
"""
_MEMFD = """
fd = os.memfd_create("filled")
try:
    controls["the first"] = "ok" if os.write(fd, bytes(1 << 20)) == 1 << 20 else "short"
    for _ in range(mib - 1):
        os.write(fd, bytes(1 << 20))
    out["all of it"] = "ok"
except OSError as error:
    out["all of it"] = word(error.errno)
"""
_PIPES = """
filled = 0
pipes = []
try:
    for _ in range(count):
        pipes.append(os.pipe())
        os.set_blocking(pipes[-1][1], False)
        filled += os.write(pipes[-1][1], bytes(65536))
    out["all of it"] = "ok"
except OSError as error:
    out["all of it"] = word(error.errno)
controls["filled"] = "ok" if filled > 1 << 20 else str(filled)
"""
# The process asks for mercy first, as far as it may: its own score only.
_STUBBORN = """
try:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
except OSError:
    pass
left = os.open("left-behind", os.O_CREAT | os.O_WRONLY)
os.write(left, bytes(4 << 20))
"""


def ended(result: ExecResult, checks: Checks, what: str) -> str:
    """How the command was kept to its quota: ``oom`` or ``refused``; anything else is entered as a broken promise."""
    if result.fault == "oom":
        checks.hold(what, True)
        return "oom"
    answers: dict[str, str] = {}
    if result.fault is None and result.exit_code == 0:
        answers, controls = parse(result.stdout_bytes)
        for name, value in controls.items():
            checks.control(name, value == "ok", value)
    refused = bool(answers) and "ok" not in answers.values()
    checks.hold(what, refused, f"exit {result.exit_code}, fault {result.fault}, {answers}")
    return "refused"


@probe("C01", "One process has no more memory than its quota", claim="quotas.memory")
async def one_process(arena: Arena) -> Verdict:
    """Twice the quota ends with fault ``oom`` or is refused; a part of it is no fault; the sandbox goes on."""
    box = await arena.create(quotas=Quotas(memory=QUOTA))
    checks = Checks()
    small = await arena.run(_MEMORY + _ONE, box=box, mib=24, hold=0)
    checks.control("24 of 64 MiB", small.ok, small.stderr[-200:])
    how = ended(await arena.run(_MEMORY + _ONE, box=box, mib=128, hold=1), checks, "128 of 64 MiB end")
    checks.hold("the sandbox goes on", await alive(arena, box))
    return checks.verdict("CONTAINED" if how == "oom" else "BLOCKED", holder(arena, box, "memory"), f"ended by {how}")


@probe("C02", "Many processes together have no more memory than the quota", claim="quotas.memory")
async def many_processes(arena: Arena) -> Verdict:
    """Ten processes, each far below the quota and together over it, end with fault ``oom`` or are refused."""
    box = await arena.create(quotas=Quotas(memory=QUOTA))
    checks = Checks()
    few = await arena.run(_MEMORY + _MANY, box=box, count=2, mib=4, hold=0)
    checks.control("two small ones", few.ok, few.stderr[-200:])
    how = ended(await arena.run(_MEMORY + _MANY, box=box, count=10, mib=14, hold=1), checks, "140 of 64 MiB end")
    checks.hold("the sandbox goes on", await alive(arena, box))
    return checks.verdict("CONTAINED" if how == "oom" else "BLOCKED", holder(arena, box, "memory"), f"ended by {how}")


@probe("C03-scratch", "Scratch space in memory counts as memory", claim="quotas.memory")
async def scratch_space(arena: Arena) -> Verdict:
    """What is written to temporary file systems and the memory beside it end together at the quota."""
    if "files" not in arena.target.capabilities.protections:
        return Verdict("NOT-PROVIDED", detail="its temporary directories are the host's")
    box = await arena.create(quotas=Quotas(memory=QUOTA))
    checks = Checks()
    small = await arena.run(_MEMORY + _SCRATCH, box=box, mib=1, hold=0)
    checks.control("a little is written", small.ok and parse(small.stdout_bytes)[1]["written"] == "ok", small.stdout[-200:])
    how = ended(await arena.run(_MEMORY + _SCRATCH, box=box, mib=96, hold=0.5), checks, "scratch space and memory end")
    checks.hold("the sandbox goes on", await alive(arena, box))
    return checks.verdict("CONTAINED", f"{holder(arena, box, 'memory')}, size of the mount", f"ended by {how}")


@probe("C03-unmapped", "Memory that no process has mapped counts as memory", claim="quotas.memory")
async def unmapped(arena: Arena) -> Verdict:
    """A memory file and full pipes end at the quota. A quota that is watched sees mappings only, and says so."""
    box = await arena.create(quotas=Quotas(memory=QUOTA))
    held = enforcement(arena, box, "memory")
    if held.kind != "kernel":
        return Verdict("NOT-PROVIDED", detail=f"{held.kind}: {held.note}")
    checks = Checks()
    small = await arena.run(_MEMFD, box=box, mib=8)
    checks.control("8 of 64 MiB in a memory file", small.ok, small.stderr[-200:])
    ended(await arena.run(_MEMFD, box=box, mib=96), checks, "96 of 64 MiB in a memory file end")
    narrow = await arena.create(quotas=Quotas(memory=24 * MIB))
    small = await arena.run(_PIPES, box=narrow, count=40)
    checks.control("40 full pipes", small.ok, small.stderr[-200:])
    ended(await arena.run(_PIPES, box=narrow, count=450), checks, "28 of 24 MiB in pipes end")
    return checks.verdict("CONTAINED", holder(arena, box, "memory"))


@probe("C20", "Running out of memory stays inside", claim="quotas.memory")
async def stays_inside(arena: Arena) -> Verdict:
    """A bomb that asked to be spared ends all the same; a neighbour and the host process go on; the next command has room."""
    box = await arena.create(quotas=Quotas(memory=QUOTA))
    other = await arena.create(quotas=Quotas(memory=QUOTA))
    checks = Checks()
    before = await asyncio.to_thread(Path("/proc/self/oom_score_adj").read_text)
    bomb, survived = await asyncio.gather(
        arena.run(_MEMORY + _STUBBORN + _ONE, box=box, mib=128, hold=1), other.exec("sleep 0.5; echo survived", timeout=30.0)
    )
    ended(bomb, checks, "a bomb that asked to be spared ends")
    arena.saw(survived)
    checks.hold("the neighbour goes on", (survived.stdout, survived.fault) == ("survived\n", None), survived)
    again = await arena.run(_MEMORY + _ONE, box=box, mib=16, hold=0)
    checks.hold("the next command has room", again.ok, f"fault {again.fault}")
    after = await asyncio.to_thread(Path("/proc/self/oom_score_adj").read_text)
    checks.hold("the host's own score is as it was", before == after, after)
    checks.control("the neighbour had a quota too", await alive(arena, other))
    return checks.verdict("CONTAINED", holder(arena, box, "memory"))
