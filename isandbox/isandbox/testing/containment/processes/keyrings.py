"""Kernel keyrings: they belong to users and sessions, not to namespaces, so a key of the host is only a number away."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
from dataclasses import dataclass

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.numbers import NUMBERS
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# linux/keyctl.h. The user's session keyring is the one of who has no session of its own; -3 would make us one.
_USER, _USER_SESSION = -4, -5
_SETPERM, _INVALIDATE, _READ = 5, 21, 11
_EVERYBODY = 0x3F3F3F3F


@dataclass(frozen=True, slots=True)
class HostKeys:
    """Keys of the host with a canary each, which every process of the machine may read by their numbers."""

    numbers: tuple[int, ...]
    name: str

    @classmethod
    def plant(cls, arena: Arena) -> HostKeys:
        """In the user's keyring and that of the user's sessions; they go with the probe. `OSError` where this machine lets us have none."""
        made, name = [], f"isandbox-probe-{secrets.token_hex(8)}"
        for ring in (_USER, _USER_SESSION):
            canary = arena.canaries.new().encode()
            number = _call("add_key", b"user", name.encode(), canary, len(canary), ring)
            arena.stack.callback(_forget, number)
            _call("keyctl", _SETPERM, number, _EVERYBODY)
            made.append(number)
        return cls(tuple(made), name)

    def readable(self) -> bool:
        """Whether the host itself can read them: what is planted must be there to be found."""
        room = ctypes.create_string_buffer(64)
        return all(_call("keyctl", _READ, number, room, len(room)) > 0 for number in self.numbers)


def _call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char]) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(libc.syscall(ctypes.c_long(NUMBERS[os.uname().machine][name]), *wide))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


def _forget(number: int) -> None:
    with contextlib.suppress(OSError):
        _call("keyctl", _INVALIDATE, number)


_LOOK = r"""
GET_KEYRING, JOIN, DESCRIBE, SEARCH, READ, PERSISTENT = 0, 1, 6, 10, 11, 22
room = ctypes.create_string_buffer(256)

def read(number):
    answer = call(NR["keyctl"], READ, number, room, len(room), 0)
    if answer == "ok":
        sys.stdout.write(room.value.decode("latin-1"))
    return answer

def found(listing):
    "Whether the kernel's list of keys names one of them."
    return any("%08x" % (number & 0xFFFFFFFF) in listing for number in numbers)

controls["a call that is harmless"] = attempt(os.sched_yield)
for number in numbers:
    out["read %d" % number] = read(number)
    out["describe %d" % number] = call(NR["keyctl"], DESCRIBE, number, room, len(room), 0)
near = {read(number + step) for number in numbers for step in range(-500, 501)}
out["numbers near"] = "ok" if "ok" in near else min(near)
for ring in (-1, -2, -3, -4, -5):
    out["search %d" % ring] = call(NR["keyctl"], SEARCH, ring, b"user", name.encode(), 0)
out["persistent"] = call(NR["keyctl"], PERSISTENT, -1, -2, 0, 0)
out["join a session"] = call(NR["keyctl"], JOIN, b"_ses", 0, 0, 0)
out["request"] = call(NR["request_key"], b"user", name.encode(), None, 0)
for path in ("/proc/keys", "/proc/key-users"):
    listing = content(path)
    out[path] = listing if listing.startswith("E") and len(listing) < 10 else "ok" if found(listing) else "ENOKEY"
"""


@probe("B16", "Keys of the host's keyrings are out of reach", claim="ipc")
async def keyrings(arena: Arena) -> Verdict:
    """Keys in the user's and the session's keyring of the host, which anybody on it may read, are neither read by their numbers
    nor found by their names, and no keyring of the host can be joined.
    """
    try:
        keys = HostKeys.plant(arena)
        planted = keys.readable()
    except OSError as error:
        return Verdict("VACUOUS", detail=f"no key can be planted on this host: {error}")
    if not planted:
        return Verdict("VACUOUS", detail="the host cannot read the keys that it planted")
    out, controls = await arena.attack(_LOOK, numbers=list(keys.numbers), name=keys.name)
    by = {
        "ENOKEY": "no such key in view",
        "EPERM": "system call filter",
        "ENOSYS": "system call filter",
        "EACCES": "key permissions",
    }
    return judge(out, controls, refused={"EPERM", "ENOSYS", "EACCES", "ENOKEY", "ENOENT"}, by=by)
