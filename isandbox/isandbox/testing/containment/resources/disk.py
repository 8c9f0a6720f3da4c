"""Disk: bytes and names inside, and what a file of pretended size costs the host."""

from __future__ import annotations

import errno

import psutil

from isandbox.errors import SandboxError
from isandbox.policy import Quotas
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.inside import parse
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.resources.quota import MIB, alive, holder, tells

QUOTA = 8 * MIB
FULL = frozenset({"ENOSPC", "EDQUOT"})

# One after the other, each in an empty directory: what one way has filled is given back before the next. SIGBUS is how a
# mapping is told that there is no room.
_FILL = """
import mmap, shutil
def written():
    with open("a", "wb", buffering=0) as file:
        for _ in range(mib):
            file.write(bytes(1 << 20))
def allocated():
    with open("a", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, mib << 20)
def mapped():
    def touch():
        with open("a", "wb+") as file:
            file.truncate(mib << 20)
            area = mmap.mmap(file.fileno(), mib << 20)
            for at in range(0, mib << 20, 4096):
                area[at] = 1
        return "ok"
    said = in_child(touch, 20)
    if said != "ok":
        raise OSError(errno.ENOSPC if said == "signal 7" else errno.EPROTO, said)
def nameless():
    with open("a", "wb", buffering=0) as file:
        os.unlink("a")
        for _ in range(mib):
            file.write(bytes(1 << 20))
def spread():
    for number in range(mib * 4):
        with open("a%d" % number, "wb", buffering=0) as file:
            file.write(bytes(1 << 18))
def everywhere():
    kept = []
    for place in ["/tmp", "/dev/shm", os.path.expanduser("~"), "."]:
        if not os.access(place, os.W_OK):
            continue
        name = os.path.join(place, "filled-%d" % os.getpid())
        kept.append(open(name, "wb", buffering=0))
        os.unlink(name)
        for _ in range(mib // 2):
            kept[-1].write(bytes(1 << 20))
top = os.getcwd()
for way in [written, allocated, mapped, nameless, spread, everywhere]:
    os.mkdir("fill"); os.chdir("fill")
    out[way.__name__] = attempt(way)
    if out[way.__name__] in ("ENOSPC", "EDQUOT"):
        time.sleep(hold)
    os.chdir(top); shutil.rmtree("fill")
with open("small", "wb") as file:
    controls["room for a little"] = "ok" if file.write(bytes(1 << 20)) == 1 << 20 else "no"
os.unlink("small")
"""
_NAMES = """
os.mkdir("names")
made = 0
try:
    for number in range(count):
        os.close(os.open("names/%06d" % number, os.O_CREAT | os.O_WRONLY))
        made += 1
    out["all of them"] = "ok"
except OSError as error:
    out["all of them"] = word(error.errno)
controls["some of them"] = "ok" if made > 100 else str(made)
import shutil
shutil.rmtree("names")
"""
_SPARSE = """
with open("sparse", "wb") as file:
    out["a tebibyte"] = attempt(file.truncate, 1 << 40)
with open("plain", "wb") as file:
    controls["a plain file"] = "ok" if file.write(b"plain") == 5 else "no"
"""


@probe("C05", "What is written ends at the quota of the disk, whatever the way", claim="quotas.disk")
async def full_disk(arena: Arena) -> Verdict:
    """Written, allocated, mapped, deleted while open, in many files, in many places: each is refused, told as ``disk``, and
    leaves a neighbour its room.
    """
    box = await arena.create(quotas=Quotas(disk=QUOTA))
    other = await arena.create(quotas=Quotas(disk=QUOTA))
    checks = Checks()
    result = await arena.run(_FILL, box=box, mib=12, hold=0.06)
    checks.control("the program ran", result.exit_code == 0, result.stderr[-300:])
    if result.exit_code != 0:
        return checks.verdict("LEAK", "")
    answers, controls = parse(result.stdout_bytes)
    for name, value in controls.items():
        checks.control(name, value == "ok", value)
    for way, value in answers.items():
        checks.hold(f"12 of 8 MiB, {way}, are refused", value in FULL, value)
    checks.hold("the limit is told", tells(arena, box, "disk", result), sorted(result.limits_hit))
    beside = await arena.run(_FILL, box=other, mib=1, hold=0)
    checks.hold("a neighbour has its own room", beside.ok and set(parse(beside.stdout_bytes)[0].values()) == {"ok"})
    return checks.verdict("BLOCKED", holder(arena, box, "disk"))


@probe("C05-names", "Empty files count too", claim="quotas.disk")
async def many_names(arena: Arena) -> Verdict:
    """20,000 names without a byte end at a quota of 8 MiB: each takes memory or room that is the host's."""
    box = await arena.create(quotas=Quotas(disk=QUOTA))
    answers, controls = await arena.attack(_NAMES, box=box, count=20_000)
    checks = Checks()
    for name, value in controls.items():
        checks.control(name, value == "ok", value)
    for name, value in answers.items():
        checks.hold(name, value in FULL, value)
    checks.hold("the sandbox goes on", await alive(arena, box))
    return checks.verdict("BLOCKED", f"{holder(arena, box, 'disk')}, number of files")


@probe("C06", "A file of pretended size costs the host nothing", claim="interface")
async def sparse_file(arena: Arena) -> Verdict:
    """A file of 1 TiB without content is refused whole, comes in the part asked for, and is not downloaded."""
    sandbox = await arena.sandbox()
    answers, controls = await arena.attack(_SPARSE)
    if answers["a tebibyte"] != "ok":
        return Verdict("BLOCKED", "size of the file", answers["a tebibyte"])
    checks = Checks()
    for name, value in controls.items():
        checks.control(name, value == "ok", value)
    checks.control("a plain file is read", await sandbox.read("plain") == b"plain")
    process = psutil.Process()
    before = process.memory_info().rss
    checks.hold("its size is told", (await sandbox.stat("sparse")).size == 1 << 40)
    checks.hold("a listing tells it", 1 << 40 in [entry.size for entry in await sandbox.list_dir(".")])
    checks.hold("a part comes as it is", await sandbox.read("sparse", offset=1 << 39, limit=MIB) == bytes(MIB))
    checks.hold("all of it is refused", (said := await _refusal(sandbox.read("sparse"))) == "EFBIG", said)
    target = arena.directory() / "got"
    checks.hold("nor downloaded", (said := await _refusal(sandbox.files.download("sparse", target))) == "SandboxError", said)
    checks.hold("nothing is on the host", not target.exists())
    grown = process.memory_info().rss - before
    checks.hold("memory stays bounded", grown < 512 * MIB, f"{grown >> 20} MiB more")
    await sandbox.remove("sparse")
    return checks.verdict("BLOCKED", "bound on an answer")


async def _refusal(call: object) -> str:
    try:
        await call  # type: ignore[misc]
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except SandboxError:
        return "SandboxError"
    return "ok"
