"""What a command is: ids, capabilities, limits, namespaces, mounts, descriptors, as it sees them and as the host does."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import psutil

from isandbox.testing.containment.arena import Arena, Box
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.processes.attacks import FILTERED
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.victim import inhabitant

_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")

# Read-only: nothing is changed but the process's own umask, which is put back.
_READ = r"""
import resource
LINES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "Uid", "Gid", "Groups",
         "SigBlk", "SigIgn", "SigCgt", "CoreDumping", "Threads")
status = dict(line.partition(":")[::2] for line in content("/proc/self/status").splitlines())
for name in LINES:
    out["status " + name] = " ".join(status.get(name, "not told").split())
mask = os.umask(0o777)
os.umask(mask)
out["umask"] = "%03o" % mask
out["dumpable"] = libc.prctl(3, 0, 0, 0, 0)
out["securebits"] = libc.prctl(27, 0, 0, 0, 0)
out["keep capabilities"] = libc.prctl(7, 0, 0, 0, 0)
out["child subreaper"] = "no"
flag = ctypes.c_int(0)
if libc.prctl(37, ctypes.byref(flag), 0, 0, 0) == 0:
    out["child subreaper"] = "yes" if flag.value else "no"
out["personality"] = content("/proc/self/personality").strip()
out["oom_score_adj"] = content("/proc/self/oom_score_adj").strip()
out["priority"] = os.getpriority(os.PRIO_PROCESS, 0)
out["scheduler"] = os.sched_getscheduler(0)
out["CPUs"] = "%s" % sorted(os.sched_getaffinity(0))
out["session leader"] = str(os.getsid(0) == os.getpid())
out["process group leader"] = str(os.getpgrp() == os.getpid())
out["controlling terminal"] = opened("/dev/tty", os.O_RDWR)
out["hostname"] = os.uname().nodename
for name in sorted(dir(resource)):
    if name.startswith("RLIMIT_"):
        out["limit " + name[7:]] = "%d %d" % resource.getrlimit(getattr(resource, name))
for name in ("uid_map", "gid_map", "setgroups", "cgroup"):
    out[name] = " ".join(content("/proc/self/" + name).split())
for name in NAMESPACES:
    try:
        out["namespace " + name] = os.readlink("/proc/self/ns/" + name)
    except OSError as error:
        out["namespace " + name] = word(error.errno)
for entry in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
        out["descriptor " + entry] = os.readlink("/proc/self/fd/" + entry)
    except OSError:
        pass  # the one that the listing itself was read through
out["mounts"] = content("/proc/self/mountinfo")
out["environment"] = " ".join(sorted(os.environ))
controls["the process reads about itself"] = "ok" if status.get("Name") else "no"
"""

_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


@probe("B09", "A command has no privilege", claim="privileges")
async def no_privilege(arena: Arena) -> Verdict:
    """Every capability set is empty, no privilege can be gained by running a program, and the command is neither root nor in a
    group of the host's.
    """
    out, controls = await arena.attack(_READ, NAMESPACES=_NAMESPACES)
    answers = {name: "EPERM" if int(out[f"status {name}"], 16) == 0 else out[f"status {name}"] for name in _CAPABILITIES}
    answers["gains privileges"] = "EPERM" if out["status NoNewPrivs"] == "1" else "yes"
    ids = {*out["status Uid"].split(), *out["status Gid"].split()}
    answers["is root"] = "ok" if "0" in ids else "EPERM"
    # 65534 is a group of the host that has no name inside: it counts for files, and no more can be had from it.
    foreign = set(out["status Groups"].split()) - {*out["status Gid"].split(), "65534"}
    answers["groups"] = f"member of {' '.join(sorted(foreign))}" if foreign else "EPERM"
    return judge(answers, controls, refused={"EPERM", *FILTERED}, by={"EPERM": "no capability, no new privileges"})


async def snapshot(arena: Arena, box: Box) -> dict[str, str]:
    """All of it, comparable between runs and machines: what is a matter of chance or of the host is put into words.

    For tests that hold it to a record. Entries that begin with "outside" are what the host sees, of a sandbox on this machine.
    """
    out, _ = await arena.attack(_READ, box=box, NAMESPACES=_NAMESPACES)
    mounts = out.pop("mounts")
    found = {name: _comparable(name, value) for name, value in out.items()}
    found |= _mounts(mounts)
    inside = await inhabitant(arena, box)
    if inside.seen:
        found |= _outside(inside.seen[0])
    return dict(sorted(found.items()))


def _comparable(name: str, value: str) -> str:
    kind, _, what = name.partition(" ")
    if kind == "namespace":
        return value if value.startswith("E") else "its own" if value != _link(f"/proc/self/ns/{what}") else "the host's"
    if kind == "descriptor":
        return re.sub(r"\[\d+\]", "[...]", value)
    if kind == "limit" and what not in _SET_LIMITS:
        return "the host's" if value == _limit(what) else value
    if name in ("uid_map", "gid_map"):
        words = iter(value.split())
        return "; ".join(
            f"{inside} {_of_whom(int(outside))} {count}" for inside, outside, count in zip(words, words, words, strict=True)
        )
    if _inherited().get(name) == value:
        return "the host's"
    return _WORDS[name](value) if name in _WORDS else value


# Limits that a sandbox sets itself, whatever the caller's are.
_SET_LIMITS = {"CORE", "NICE", "RTPRIO", "NOFILE", "OFILE", "NPROC"}


def _inherited() -> dict[str, str]:
    """What a command has of the caller, unless the sandbox sets it."""
    return {
        "oom_score_adj": Path("/proc/self/oom_score_adj").read_text(encoding="ascii").strip(),
        "priority": str(os.getpriority(os.PRIO_PROCESS, 0)),
        "scheduler": str(os.sched_getscheduler(0)),
        "CPUs": str(sorted(os.sched_getaffinity(0))),
    }


def _groups(value: str) -> str:
    """An ordinary user cannot drop groups in a user namespace; they have no names there."""
    return "of the caller, without names" if os.geteuid() != 0 and set(value.split()) <= {"65534", "1000"} else value


def _filters(value: str) -> str:
    """Without those that the caller is under."""
    return str(int(value) - int(_status(os.getpid())["Seccomp_filters"]))


_WORDS: dict[str, Callable[[str], str]] = {
    "cgroup": lambda value: " ".join(sorted({line.rpartition(":")[2] for line in value.split()})),
    "status Groups": _groups,
    "status Seccomp_filters": _filters,
}


def _of_whom(number: int) -> str:
    if number >= 1 << 30:
        return "a range that nobody has"
    if number in (os.geteuid(), os.getegid()):
        return "the caller"
    return "a subordinate one" if number > 65_535 else "another"


def _limit(name: str) -> str:
    import resource  # not on every platform that imports this

    return " ".join(map(str, resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))))


# Of the mount itself, not of how often its files' times are written or how large it is.
_KEPT = {"ro", "rw", "nosuid", "nodev", "noexec"}
_OWN_KINDS = {"tmpfs", "proc", "devpts", "devtmpfs", "mqueue", "sysfs"}


def _mounts(text: str) -> dict[str, str]:
    """``mount PATH``: its flags, what it is and how changes spread. The masks below /proc differ with the kernel, what is shown of
    /etc and /dev with the machine: each of the three is one entry, with more than one value where they are not all alike.
    """
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()[0]
        place, flags = fields[4], ",".join(flag for flag in fields[5].split(",") if flag in _KEPT)
        spread = [field for field in fields[6:] if field.partition(":")[0] in ("shared", "master")]
        top, _, rest = place.lstrip("/").partition("/")
        file = top in ("proc", "etc") or (top == "dev" and rest not in ("pts", "shm"))
        name = f"/{top}/*" if rest and file else place
        what = "of the host" if kind not in _OWN_KINDS or (rest and file) else kind
        found.setdefault(f"mount {name}", set()).add(" ".join([flags, what, *(field.partition(":")[0] for field in spread)]))
    return {name: " | ".join(sorted(values)) for name, values in found.items()}


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return {name: " ".join(value.split()) for name, _, value in (line.partition(":") for line in lines)}


def _outside(process: psutil.Process) -> dict[str, str]:
    """The same process by its number on the host."""
    status, here = _status(process.pid), _status(os.getpid())
    mine = {str(os.geteuid()), str(os.getegid())}
    found = {f"outside {name}": status[name] for name in (*_CAPABILITIES, "NoNewPrivs", "Seccomp")}
    found["outside Seccomp_filters"] = _filters(status["Seccomp_filters"])
    for name in ("Uid", "Gid"):
        found[f"outside {name}"] = " ".join(
            sorted({"the caller's" if i in mine else _range(int(i)) for i in status[name].split()})
        )
    kept = status["Groups"] == here["Groups"] and os.geteuid() != 0
    found["outside Groups"] = "the caller's" if kept else status["Groups"]
    found["outside depth of pid namespaces"] = str(len(status["NSpid"].split()) - len(here["NSpid"].split()))
    for name in _NAMESPACES:
        link = _link(f"/proc/{process.pid}/ns/{name}")
        found[f"outside namespace {name}"] = "the host's" if link == _link(f"/proc/self/ns/{name}") else "its own"
    return found


def _range(number: int) -> str:
    # Above what login.defs(5) gives to users (UID_MAX is 60,000) are subordinate ids; which of them is chance.
    return "nobody's" if number >= 1 << 30 else "a subordinate one" if number > 65_535 else str(number)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return "closed"


def as_text(found: dict[str, str]) -> str:
    """As it is kept in a file."""
    return json.dumps(found, indent=2, sort_keys=True) + "\n"
