"""The plan on the helper's side: only what the launcher without isolation can carry out. The host's half is _shared/plan.py."""

from __future__ import annotations

import errno
import os
import resource
import struct
from dataclasses import dataclass, field

from .wire import HelperError

_VERSION = 1
_LARGEST = 16 << 20
_HEADER = struct.Struct("<4sIII")
_RECORD = struct.Struct("<II")
_MODE = struct.Struct("<QIIIIQQ")
_RLIMIT = struct.Struct("<IIQQ")
_LIFE = struct.Struct("<QQ")
_TAG_MODE, _TAG_RLIMIT, _TAG_AFFINITY, _TAG_LIFE = 1, 11, 15, 22
# The plan counts resources as Linux does (asm-generic/resource.h); other systems have other numbers for the same names.
_RESOURCES = {0: "RLIMIT_CPU", 1: "RLIMIT_FSIZE", 2: "RLIMIT_DATA", 4: "RLIMIT_CORE", 7: "RLIMIT_NOFILE"}
_LINUX_ONLY = {13: "RLIMIT_NICE", 14: "RLIMIT_RTPRIO"}


@dataclass(slots=True)
class Plan:
    """``memory``: bytes of all commands together, ``cpu``: seconds of one command with its children; 0 for no limit.
    ``lifetime`` and ``idle``: seconds after which the sandbox ends of its own accord.
    """

    memory: int = 0
    cpu: float = 0.0
    lifetime: float = 0.0
    idle: float = 0.0
    limits: list[tuple[int, tuple[int, int]]] = field(default_factory=list)
    cpus: set[int] = field(default_factory=set)

    def most(self, number: int) -> int | None:
        """What is allowed of a resource of the module `resource`; ``None`` without a limit."""
        return next((hard for limited, (_, hard) in self.limits if limited == number), None)


def _bad(why: str) -> HelperError:
    return HelperError(errno.EBADMSG, "plan", why)


def load_plan(fd: int) -> Plan:
    """Read and close the plan's descriptor. Raises `HelperError` for what does not parse or cannot be done here."""
    raw = bytearray()
    while len(raw) <= _LARGEST and (data := os.read(fd, 65_536)):
        raw += data
    os.close(fd)
    return parse_plan(bytes(raw))


def parse_plan(raw: bytes) -> Plan:
    if not _HEADER.size <= len(raw) <= _LARGEST:
        raise _bad("size")
    if _HEADER.unpack_from(raw)[:3] != (b"ISBP", _VERSION, len(raw)):
        raise _bad("header")
    plan, at, modes = Plan(), _HEADER.size, 0
    while at < len(raw):
        if at + _RECORD.size > len(raw):
            raise _bad("bytes after the plan")
        tag, length = _RECORD.unpack_from(raw, at)
        at += _RECORD.size
        payload = raw[at : at + length]
        at += length + -length % 8
        if at > len(raw):
            raise _bad("record past the end")
        modes += tag == _TAG_MODE
        _take(plan, tag, payload)
    if modes != 1:
        raise _bad("no mode")
    return plan


def _take(plan: Plan, tag: int, payload: bytes) -> None:
    try:
        if tag == _TAG_MODE:
            _take_mode(plan, payload)
        elif tag == _TAG_RLIMIT:
            plan.limits += _limit(payload)
        elif tag == _TAG_AFFINITY:
            plan.cpus = _cpus(payload)
        elif tag == _TAG_LIFE:
            plan.lifetime, plan.idle = (ms / 1000 for ms in _LIFE.unpack(payload))
        else:
            raise _bad(f"record {tag} needs the native helper")
    except struct.error:
        raise _bad("record length") from None


def _take_mode(plan: Plan, payload: bytes) -> None:
    clone_flags, flags, _, _, pids, plan.memory, cpu_ns = _MODE.unpack(payload)
    if clone_flags or flags or pids:
        raise _bad("isolation needs the native helper")
    plan.cpu = cpu_ns / 1e9


def _limit(payload: bytes) -> list[tuple[int, tuple[int, int]]]:
    """One limit; none where the system does not have the resource at all."""
    number, _, soft, hard = _RLIMIT.unpack(payload)
    name = _RESOURCES.get(number) or _LINUX_ONLY.get(number)
    if name is None:
        raise _bad(f"resource {number}")
    if number in _LINUX_ONLY and not hasattr(resource, name):
        return []
    most = (1 << 63) - 1  # the module's numbers are signed; above it is no limit in any case
    pair = tuple(resource.RLIM_INFINITY if value > most else value for value in (soft, hard))
    return [(getattr(resource, name), (pair[0], pair[1]))]


def _cpus(payload: bytes) -> set[int]:
    if not hasattr(os, "sched_setaffinity"):
        raise _bad("this system cannot bind a process to CPUs")
    words = struct.unpack(f"<{len(payload) // 8}Q", payload)
    return {64 * index + bit for index, word in enumerate(words) for bit in range(64) if word >> bit & 1}
