"""What a command can find out about the machine that it is on: its directories, its name, its control groups."""

from __future__ import annotations

import os
from pathlib import Path

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.filesystem.hostfiles import number, present
from isandbox.testing.containment.judge import REFUSED, judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.victim import inhabitant

# Not where programs are, which is what a view of the host's file system is for.
_DIRECTORIES = (
    "/boot", "/dev", "/etc", "/home", "/lost+found", "/media", "/mnt", "/opt", "/root", "/run", "/run/lock", "/run/user", "/srv",
    "/sys", "/tmp", "/var", "/var/lib", "/var/log", "/var/run", "/var/spool", "/var/tmp",
)  # fmt: skip

_WHICH = """
def which(path):
    try:
        status = os.stat(path)
    except OSError as error:
        return word(error.errno)
    return "%d %d" % (status.st_dev, status.st_ino)

controls["its own root"] = "ok" if which("/") == which("/proc/self/root") else which("/proc/self/root")
for path in paths:
    for name in (path, "/proc/1/root" + path, "/proc/self/root" + path):
        out[name] = which(name)
"""


@probe("A01-directories", "Directories of the host are not where they are on the host", claim="files")
async def directories(arena: Arena) -> Verdict:
    """Homes, settings, logs, scratch space and what runs have are not there, or are others: none is the host's directory, which
    would tell names, sizes and times of what is in it, even if nothing in it can be read.
    """
    known = {path: number(path) for path in present(_DIRECTORIES)}
    out, controls = await arena.attack(_WHICH, paths=list(known))
    for name, inside in out.items():
        if " " in inside:
            theirs = known[name.removeprefix("/proc/1/root").removeprefix("/proc/self/root")]
            out[name] = "the host's" if inside == theirs else "another"
    return judge(out, controls, refused=REFUSED | {"another"}, by={"another": "mount view"})


_NAME = """
def told(text):
    return "told" if name in text else "another"

controls["it has a name"] = "ok" if os.uname().nodename else "none"
out["uname"] = told(os.uname().nodename)
out["gethostname"] = told(socket.gethostname())
for path in ("/proc/sys/kernel/hostname", "/etc/hostname", "/etc/hosts"):
    out[path] = told(content(path))
out["to what it is"] = attempt(socket.sethostname, os.uname().nodename)
"""
_NAMELESS = ("", "(none)", "localhost", "sandbox")


@probe("A18-name", "The name of the machine is not told, and cannot be changed", claim="kernel")
async def machine_name(arena: Arena) -> Verdict:
    """A command sees another name than the host's, by each call and file that tells one, and may not set one.

    ``VACUOUS`` where the host's own name says nothing.
    """
    name = os.uname().nodename
    if name in _NAMELESS:
        return Verdict("VACUOUS", detail=f"the host is called {name!r}")
    out, controls = await arena.attack(_NAME, name=name)
    return judge(out, controls, refused=REFUSED | {"another"}, by={"another": "uts namespace"})


_GROUP = """
listing = content("/proc/self/cgroup")
controls["it is in some group"] = "ok" if listing.strip() else "none"
for name in ("/proc/self/cgroup", "/proc/1/cgroup", "/proc/self/mountinfo"):
    text = content(name, 1 << 20)
    for place in places:
        out["%s, %s" % (name, place)] = "told" if place in text else "not told"
"""


@probe("A17-place", "The control group's place on the host is not told", claim="kernel")
async def group_place(arena: Arena) -> Verdict:
    """The path of a command's control groups, as the host sees it, is in no file that the command can read: it names the
    services, users and containers of the host.

    ``VACUOUS`` where commands are in the host's root group, which has no path, or are not seen by the host.
    """
    inside = await inhabitant(arena, await arena.box())
    places = _groups_of(inside.seen[0].pid) if inside.seen else []
    if not places:
        return Verdict("VACUOUS", detail="commands are in no control group of the host, or it does not see them")
    out, controls = await arena.attack(_GROUP, places=places)
    return judge(out, controls, refused={"not told"}, by={"not told": "cgroup namespace"})


def _groups_of(pid: int) -> list[str]:
    """Their paths, without that of the root group."""
    lines = Path(f"/proc/{pid}/cgroup").read_text("utf-8").splitlines()
    return sorted({place for line in lines if (place := line.split(":", 2)[2]) != "/"})
