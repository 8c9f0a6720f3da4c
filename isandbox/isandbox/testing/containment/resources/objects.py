"""Objects of the kernel: what is left of them, and whose they were."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
from pathlib import Path

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_TABLES = ("shm", "msg", "sem")

# Each made with a key that the host's own tables are searched for. A box may refuse to make them at all.
_SYSV = """
libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
made = {
    "shm": lambda key: libc.shmget(key, 4096, 0o1600),
    "msg": lambda key: libc.msgget(key, 0o1600),
    "sem": lambda key: libc.semget(key, 1, 0o1600),
}
for kind, make in made.items():
    number = 0
    for at in range(count):
        ctypes.set_errno(0)
        if make(key + at) < 0:
            break
        number += 1
    out[kind] = number if number else word(ctypes.get_errno())
    table = content("/proc/sysvipc/" + kind)
    out[kind + " table"] = "seen" if str(key) in table.split() else "not seen"
names = 0
try:
    rt = ctypes.CDLL("librt.so.1", use_errno=True)
except OSError:
    rt = libc
for at in range(count):
    if rt.mq_open(("/%s-%d" % (queue, at)).encode(), os.O_CREAT | os.O_RDWR, 0o600, None) < 0:
        break
    names += 1
out["mq"] = names if names else word(ctypes.get_errno())
controls["something of its own"] = opened("/proc/self/status")
"""


@probe("C17", "Shared memory, semaphores and queues go with the sandbox", claim="ipc")
async def leftovers(arena: Arena) -> Verdict:
    """None of those made inside is in the host's tables, neither while the sandbox lives nor afterwards."""
    key, queue = 0x10000000 + secrets.randbelow(0x40000000), f"left-{secrets.token_hex(8)}"
    checks = Checks()
    async with arena.target.create() as box:
        made, controls = await arena.attack(_SYSV, box=box, key=key, queue=queue, count=32)
        during = _on_the_host(key, queue)
    for name, value in controls.items():
        checks.control(name, value == "ok", value)
    kinds = [kind for kind in (*_TABLES, "mq") if made[kind].isdigit()]
    checks.hold("none is the host's", not during, during)
    checks.hold("none is left", not (left := _on_the_host(key, queue)), left)
    if left:
        _take_away(key, queue)
    else:
        checks.control("one of the host's own is seen", _seen_while_it_is_there(key), "its tables cannot be read")
    if kinds:
        return checks.verdict("CONTAINED", "ipc namespace", f"made inside: {', '.join(kinds)}")
    return checks.verdict("BLOCKED", "system call filter", ", ".join(f"{kind}: {made[kind]}" for kind in _TABLES))


def _on_the_host(key: int, queue: str) -> list[str]:
    """Which of the objects the host has."""
    found = []
    for kind in _TABLES:
        with contextlib.suppress(OSError):
            lines = Path("/proc/sysvipc", kind).read_text(encoding="utf-8").splitlines()[1:]
            keys = [int(line.split()[0]) for line in lines]
            found += [f"{kind} {one}" for one in keys if key <= one < key + 32]
    with contextlib.suppress(OSError):
        found += [name for name in os.listdir("/dev/mqueue") if name.startswith(queue)]
    return found


def _take_away(key: int, queue: str) -> None:
    """Remove from the host what a sandbox left there: a probe that finds a leak must not be one."""
    libc = ctypes.CDLL(None, use_errno=True)
    for at in range(32):
        if (number := libc.shmget(key + at, 0, 0)) >= 0:
            libc.shmctl(number, 0, None)  # IPC_RMID
        if (number := libc.msgget(key + at, 0)) >= 0:
            libc.msgctl(number, 0, None)
        if (number := libc.semget(key + at, 0, 0)) >= 0:
            libc.semctl(number, 0, 0)
        libc.mq_unlink(f"/{queue}-{at}".encode())


def _seen_while_it_is_there(key: int) -> bool:
    """Whether the search finds an object that this process makes and takes away again."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = libc.shmget(key, 4096, 0o1600)
    try:
        return bool(_on_the_host(key, "-"))
    finally:
        if number >= 0:
            libc.shmctl(number, 0, None)  # IPC_RMID
