"""Objects that the kernel counts for users: whoever takes all that it gets takes them from others."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.inside import program
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Above this many a user's share of watches is not taken: it would be hundreds of megabytes of the kernel's.
_MOST_WATCHES = 400_000

_MAKE = """
def terminal():
    try:
        return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return -1

def watch():
    fd = libc.inotify_init1(0o2000000)
    try:
        return -1 if fd < 0 or libc.inotify_add_watch(fd, b"/", 0x100) < 0 else os.dup(fd)
    finally:
        if fd >= 0:
            os.close(fd)

kinds = {
    "watch": watch,
    "epoll": lambda: libc.epoll_create1(0o2000000),
    "eventfd": lambda: libc.eventfd(0, 0o2000000),
    "timerfd": lambda: libc.timerfd_create(1, 0o2000000),
    "terminal": terminal,
}
"""
_TAKE = (
    _MAKE
    + """
kept = []

def flood(make, most):
    number = 0
    while number < most:
        fd = make()
        if fd < 0:
            break
        kept.append(fd)
        number += 1
    return number

def terminals_of_a_child():
    "Held until its parent ends, or for twenty seconds."
    if os.fork() == 0:
        signal.alarm(20)
        os.close(held)
        os.write(tell, b"%d\\n" % flood(terminal, terminals // 2 + 8))
        os.close(tell)
        os.read(hold, 1)
        os._exit(0)

def watches_of(instances):
    "As many as there are to be had, spread over the instances: each may watch a file once."
    directory = place()
    names = [os.path.join(directory, str(number)).encode() for number in range(watches // max(len(instances), 1) + 1)]
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
    number = 0
    for fd in instances:
        for name in names:
            if libc.inotify_add_watch(fd, name, 0x100) < 0:
                break
            number += 1
    return number

(told, tell), (hold, held) = os.pipe(), os.pipe()
for _ in range(2):
    terminals_of_a_child()
os.close(tell)
with os.fdopen(told) as counts:
    taken = sum(map(int, counts))
instances = flood(lambda: libc.inotify_init1(0o2000000), count)
watched = watches_of(kept[:instances]) if watches else 0
for make in (kinds["epoll"], kinds["eventfd"], kinds["timerfd"]):
    flood(make, count)
sys.stdout.write("full %d %d %d\\n" % (taken, watched, len(kept)))
sys.stdout.flush()
open("full", "w").close()
end = time.monotonic() + 15
while not os.path.exists("seen") and time.monotonic() < end:
    time.sleep(0.02)
"""
)
_STILL = (
    _MAKE
    + """
for name, make in kinds.items():
    fd = make()
    out[name] = "ok" if fd >= 0 else word(ctypes.get_errno())
controls["it runs"] = "ok"
"""
)


@probe("C17-counted", "Who takes all objects of a kind leaves others their own", claim="processes")
async def counted(arena: Arena) -> Verdict:
    """While a command holds as many watches, timers and terminals as it gets, the host process can make each, and so can
    another sandbox. Of the machine's terminals it gets no more than a quarter.
    """
    sandbox, other = await arena.sandbox(), await arena.create()
    terminals, checks = _terminals() // 4, Checks()
    checks.control("the host could before", not (missing := _refused_to_the_host()), missing)
    values = {"count": 200, "watches": _watches(), "terminals": terminals}
    process = await sandbox.start(["python3", "-I", "-c", program(_TAKE, values)], timeout=40.0)
    said = b""
    async for stream, chunk in process:
        said += chunk if stream == "stdout" else b""
        if b"full" in said and said.endswith(b"\n"):
            break
    missing = _refused_to_the_host()
    still, _ = await arena.attack(_STILL, box=other)
    await sandbox.write("seen", b"")
    result = await process.wait()
    arena.saw(result)
    numbers = [int(word) for word in said.split()[1:4]]
    checks.control("some were made", len(numbers) == 3 and numbers[2] > 10, result.stderr[-200:])
    taken = numbers[0] if numbers else 0
    checks.hold("a quarter of the terminals at most", taken <= terminals, taken)
    checks.hold("the host still can", not missing, missing)
    refused = {name: answer for name, answer in still.items() if answer != "ok"}
    checks.hold("another sandbox still can", not refused, refused)
    return checks.verdict("CONTAINED", "counted for the sandbox's own user", f"terminals, watches, all: {numbers}")


def _limit(name: str) -> int:
    try:
        return int(Path("/proc/sys", name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _watches() -> int:
    """What this user may have in all, and one more; 0 where that is too many to try."""
    most = _limit("fs/inotify/max_user_watches")
    return most + 1 if 0 < most <= _MOST_WATCHES else 0


def _terminals() -> int:
    return _limit("kernel/pty/max")


def _refused_to_the_host() -> list[str]:
    """Kinds of object that this process cannot make now."""
    libc = ctypes.CDLL(None, use_errno=True)
    kinds: dict[str, Callable[[], int]] = {
        "watch": lambda: _watch(libc),
        "epoll": lambda: int(libc.epoll_create1(os.O_CLOEXEC)),
        "timerfd": lambda: int(libc.timerfd_create(1, os.O_CLOEXEC)),
        "terminal": _terminal,
    }
    refused = []
    for name, make in kinds.items():
        fd = make()
        if fd < 0:
            refused.append(name)
        else:
            os.close(fd)
    return refused


def _watch(libc: ctypes.CDLL) -> int:
    """An instance with a watch in it."""
    fd = int(libc.inotify_init1(os.O_CLOEXEC))
    if fd >= 0 and libc.inotify_add_watch(fd, b"/", 0x100) < 0:
        os.close(fd)
        return -1
    return fd


def _terminal() -> int:
    try:
        return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return -1
