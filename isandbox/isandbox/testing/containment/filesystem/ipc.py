"""Shared memory, queues and semaphores across the border."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import struct
from collections.abc import Iterator

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.numbers import NUMBERS
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_CREATE, _EXCLUSIVE, _REMOVE, _SIZE = 0o1000, 0o2000, 0, 4096
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.shmat.restype = ctypes.c_void_p

_LOOK = """
libc.shmat.restype = ctypes.c_void_p

out["segment by key"] = call(NR["shmget"], key, 0, 0)
out["semaphores by key"] = call(NR["semget"], key, 0, 0)
out["queue by key"] = call(NR["msgget"], key, 0)
for number in ids.get("segment", []) + list(range(8)):
    address = libc.shmat(number, None, 0o10000)
    if address not in (None, ctypes.c_void_p(-1).value):
        sys.stdout.write(ctypes.string_at(address, 64).decode("latin-1"))
        out["segment %d" % number] = "ok"
message = ctypes.create_string_buffer(8 + 256)
for number in ids.get("queue", []):
    answer = call(NR["msgrcv"], number, message, 256, 0, 0o4000)
    sys.stdout.write(message.raw.decode("latin-1"))
    out["queue %d" % number] = "ok" if answer == "ok" else answer
out["message queue"] = call(NR["mq_open"], name.encode(), os.O_RDONLY, 0, None)
out["file in /dev/shm"] = opened("/dev/shm/" + name)
sys.stdout.write(content("/dev/shm/" + name))
for kind in ("shm", "sem", "msg"):
    table = content("/proc/sysvipc/" + kind)
    out["listed " + kind] = "listed" if any(line.split()[:1] == [str(key)] for line in table.splitlines()) else "ENOENT"

# And the other way round: what is made in here, the host looks for.
made = {
    "segment": call(NR["shmget"], theirs, 4096, 0o1000 | 0o666),
    "semaphores": call(NR["semget"], theirs, 1, 0o1000 | 0o666),
    "queue": call(NR["msgget"], theirs, 0o1000 | 0o666),
    "message queue": call(NR["mq_open"], (name + "-back").encode(), os.O_CREAT | os.O_RDWR, 0o666, None),
    "file": attempt(lambda: os.close(os.open("/dev/shm/" + name + "-back", os.O_CREAT | os.O_RDWR, 0o666))),
}
controls["some shared memory of its own"] = "ok" if "ok" in made.values() else "none can be made"
"""


@probe("A28", "Shared memory, queues and semaphores do not cross the border", claim="ipc")
async def across(arena: Arena) -> Verdict:
    """What the host has made for everybody, in System V's way, in POSIX's and in /dev/shm, is neither found by its key, name or
    number nor listed; what is made inside is not found on the host.
    """
    key, theirs, name = secrets.randbits(30) | 1, secrets.randbits(30) | 1, f"shared-{secrets.token_hex(8)}"
    secret = arena.canaries.new().encode()
    ids = _host_side(arena, key, name, secret)
    out, controls = await arena.attack(_LOOK, key=key, theirs=theirs, name=name, ids=ids)
    out |= {f"{kind} from inside": "found on the host" for kind in _found(theirs, f"{name}-back")}
    by = {"ENOENT": "ipc namespace, own /dev/shm", "EINVAL": "ipc namespace, own /dev/shm", "ENOSYS": "system call filter"}
    refused = {"ENOENT", "EINVAL", "EACCES", "EPERM", "ENOSYS", "EIDRM"}
    return judge(out, controls, refused=refused, by=by)


def _host_side(arena: Arena, key: int, name: str, secret: bytes) -> dict[str, list[int]]:
    """The objects of the host, removed when the probe ends; the numbers that they have. What this host does not have is left
    out: /dev/shm it has.
    """
    ids: dict[str, list[int]] = {}
    flags = _CREATE | _EXCLUSIVE | 0o666
    path = f"/dev/shm/{name}"
    with open(path, "xb") as file:
        arena.stack.callback(os.unlink, path)
        file.write(secret)
    os.chmod(path, 0o666)  # noqa: S103 - only the sandbox may be what hides it
    if (segment := _libc.shmget(key, _SIZE, flags)) >= 0:
        arena.stack.callback(_libc.shmctl, segment, _REMOVE, None)
        address = _libc.shmat(segment, None, 0)
        ctypes.memmove(address, secret, len(secret))
        _libc.shmdt(ctypes.c_void_p(address))
        ids["segment"] = [segment]
    if (queue := _libc.msgget(key, flags)) >= 0:
        arena.stack.callback(_libc.msgctl, queue, _REMOVE, None)
        _libc.msgsnd(queue, struct.pack("@l", 1) + secret, len(secret), 0)
        ids["queue"] = [queue]
    if (semaphores := _libc.semget(key, 1, flags)) >= 0:
        arena.stack.callback(_libc.semctl, semaphores, 0, _REMOVE)
    if (fd := _call("mq_open", name.encode(), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666, None)) >= 0:
        os.close(fd)
        arena.stack.callback(_call, "mq_unlink", name.encode())
    return ids


def _found(key: int, name: str) -> Iterator[str]:
    """What of the sandbox's is there on the host; it is removed."""
    if (segment := _libc.shmget(key, 0, 0)) >= 0:
        _libc.shmctl(segment, _REMOVE, None)
        yield "segment"
    if (queue := _libc.msgget(key, 0)) >= 0:
        _libc.msgctl(queue, _REMOVE, None)
        yield "queue"
    if (semaphores := _libc.semget(key, 0, 0)) >= 0:
        _libc.semctl(semaphores, 0, _REMOVE)
        yield "semaphores"
    if _call("mq_unlink", name.encode()) >= 0:
        yield "message queue"
    with contextlib.suppress(OSError):
        os.unlink(f"/dev/shm/{name}")
        yield "file in /dev/shm"


def _call(name: str, *args: bytes | int | None) -> int:
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in args]
    return int(_libc.syscall(ctypes.c_long(NUMBERS[os.uname().machine][name]), *wide))
