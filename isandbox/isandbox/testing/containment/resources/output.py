"""Output and input: floods, pipes that nobody reads, and children that keep them open."""

from __future__ import annotations

import psutil

from isandbox.policy import Quotas
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.inside import parse
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.resources.quota import MIB, alive, holder

# Bytes that are no text, on both streams at once.
_FLOOD = """
import threading
piece = bytes(range(256)) * 256
def flood(fd):
    for _ in range(mib * 16):
        os.write(fd, piece)
threads = [threading.Thread(target=flood, args=(fd,)) for fd in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@probe("C11", "A flood of output takes no memory of the host", claim="interface")
async def flood(arena: Arena) -> Verdict:
    """48 MiB on each stream are read to the end; what is kept is within its bound, and what is not is counted."""
    process, checks, mib = psutil.Process(), Checks(), arena.rounds(48, 512)
    small = await arena.run("sys.stdout.write('little')", options={"max_output": 4096})
    checks.control("a little comes whole", small.stdout.startswith("little") and not small.truncated)
    before = process.memory_info().rss
    result = await arena.run(_FLOOD, timeout=240.0, options={"max_output": 64 << 10}, mib=mib)
    grown = process.memory_info().rss - before
    checks.control("the program ran to its end", result.exit_code == 0, result)
    checks.hold("what is missing is told", result.truncated)
    kept = max(len(result.stdout_bytes), len(result.stderr_bytes))
    checks.hold("what is kept is bounded", kept <= (64 << 10) + 512, kept)
    checks.hold("what is not kept is counted", result.omitted.stderr >= (mib << 20) - (64 << 10), result.omitted)
    checks.hold("memory stays bounded", grown < 32 * MIB, f"{grown >> 20} MiB more")
    return checks.verdict("CONTAINED", "bounded buffer")


@probe("C11-quota", "A flood of output ends at its quota", claim="quotas.output")
async def output_quota(arena: Arena) -> Verdict:
    """Past the quota, on either stream or both together, a command ends with fault ``output``; below it there is none."""
    box = await arena.create(quotas=Quotas(output=MIB))
    checks = Checks()
    below = await box.exec(["head", "-c", str(MIB // 2), "/dev/zero"], timeout=20.0)
    checks.control("half of it is no fault", below.ok, below.fault)
    for script in ("yes", "yes >&2", "head -c 600000 /dev/zero; head -c 600000 /dev/zero >&2; sleep 20"):
        result = await box.exec(["sh", "-c", script], timeout=30.0, max_output=4096)
        arena.saw(result)
        checks.hold(script, result.fault == "output", f"exit {result.exit_code}, fault {result.fault}")
    checks.hold("the sandbox goes on", await alive(arena, box))
    return checks.verdict("CONTAINED", holder(arena, box, "output"))


@probe("C13", "A child that keeps the output open does not keep the caller", claim="interface")
async def open_output(arena: Arena) -> Verdict:
    """The call returns with the command's own end, its output and ``lingering``, with a time-out and without."""
    box, checks = await arena.box(), Checks()
    plain = await box.exec(["sh", "-c", "echo done"], timeout=20.0)
    checks.control("without a child nothing lingers", (plain.stdout, plain.lingering) == ("done\n", False))
    for timeout in (15.0, None):
        result = await box.exec(["sh", "-c", "sleep 20 & echo done; exit 4"], timeout=timeout)
        arena.saw(result)
        found = (result.stdout, result.exit_code, result.fault)
        checks.hold("the command's own end", found == ("done\n", 4, None), found)
        checks.hold("the child is told", result.lingering)
    late = await box.exec(["sh", "-c", "(sleep 5; echo late) & echo early"], timeout=20.0)
    checks.hold("what a child writes later is not waited for", late.stdout == "early\n", late.stdout)
    return checks.verdict("CONTAINED", "waits for the command, not for the end of its output")


@probe("C14", "Full pipes do not stop anybody", claim="interface")
async def full_pipes(arena: Arena) -> Verdict:
    """Much on one stream while the other is silent, input that nobody reads, input closed early, and no input at all."""
    box, checks = await arena.box(), Checks()
    echo = await box.exec(["cat"], input=b"x" * MIB, timeout=60.0, max_output=2 * MIB)
    checks.control("input is read", echo.stdout_bytes == b"x" * MIB, len(echo.stdout_bytes))
    errors = await box.exec(["sh", "-c", "head -c 1048576 /dev/zero >&2; echo end"], timeout=60.0)
    checks.hold("much on stderr first", (errors.stdout, len(errors.stderr_bytes)) == ("end\n", MIB), errors)
    unread = await box.exec(["sh", "-c", "echo busy"], input=bytes(10 * MIB), timeout=60.0)
    checks.hold("10 MiB that nobody reads", (unread.stdout, unread.exit_code) == ("busy\n", 0), unread)
    closed = await box.exec(["sh", "-c", "exec 0<&-; sleep 0.1; echo closed"], input=bytes(10 * MIB), timeout=60.0)
    checks.hold("input closed early", (closed.stdout, closed.exit_code) == ("closed\n", 0), closed)
    nothing = await box.exec(["cat"], timeout=60.0)
    checks.hold("no input is its end", (nothing.stdout, nothing.exit_code) == ("", 0), nothing)
    answers, _ = parse((await arena.run("out['stdin'] = 'ok' if sys.stdin.read(1) == '' else 'something'")).stdout_bytes)
    checks.hold("nothing of the host's input is there", answers["stdin"] == "ok", answers)
    return checks.verdict("CONTAINED", "all streams at once")
