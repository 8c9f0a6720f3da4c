"""Mutants of the namespaces and the mounts."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import replace
from functools import lru_cache

from isandbox_mutants.frame import NEWCGROUP, NEWIPC, NEWNET, NEWNS, NEWPID, NEWUSER, NEWUTS, Edit, Mutant, add, change, drop

from isandbox_backends._shared.plan import (
    NODEV,
    NOEXEC,
    NOSUID,
    RDONLY,
    Bind,
    Directory,
    File,
    Hostname,
    ModeRecord,
    Proc,
    Record,
    Sysctl,
    Tmpfs,
)
from isandbox_backends.seccomp.view import host_view


def _host_proc(records: list[Record]) -> list[Record]:
    """In the place of its own, so that what is hidden in it is hidden in this one."""
    return [Bind("/proc", "proc", NOSUID | NODEV | NOEXEC) if isinstance(one, Proc) else one for one in records]


def _without_namespace(flag: int) -> Edit:
    return change(ModeRecord, {"clone_flags": lambda flags: flags & ~flag})


# The helper refuses a plan without the three that keep its mounts off the host's. Here it does not look.
_NOT_LOOKED_AT = {"plan.c": [("#define NAMESPACES_NEEDED 0x30020000ull", "#define NAMESPACES_NEEDED 0ull")]}
_NOT_MAPPED = {
    "launch.c": [
        ('must (write_all ((int) fd, text, str_len (text)), "map ids", path);', ""),
        ("if (!same_words (found, text))", "if (0)"),
    ],
    **_NOT_LOOKED_AT,
}

NAMESPACES = (
    Mutant("no mount namespace", (_without_namespace(NEWNS),)),
    Mutant("no user namespace", (_without_namespace(NEWUSER), drop(Sysctl))),
    Mutant("no pid namespace", (_without_namespace(NEWPID),)),
    Mutant("no network namespace", (_without_namespace(NEWNET),)),
    Mutant("no ipc namespace", (_without_namespace(NEWIPC),)),
    Mutant("no cgroup namespace", (_without_namespace(NEWCGROUP),)),
    Mutant("no uts namespace", (_without_namespace(NEWUTS),)),
    Mutant("no uts namespace, and no host name of its own", (_without_namespace(NEWUTS), drop(Hostname))),
    # Root only: as the same user as the host's processes, the helper's own kill (-1, SIGSTOP) would reach them.
    Mutant(
        "no pid namespace, with the host's /proc and a helper that does not look",
        (_without_namespace(NEWPID), _host_proc),
        source=_NOT_LOOKED_AT,
        who="root",
    ),
    Mutant(
        "no user namespace, and a helper that does not look",
        (_without_namespace(NEWUSER), drop(Sysctl)),
        source=_NOT_MAPPED,
        who="root",
    ),
)


def _bound(path: str, target: str = "", *, attributes: int = RDONLY | NOSUID | NODEV) -> Edit:
    """A directory of the host, over whatever is there."""
    target = target or path.lstrip("/")
    known = ("tmp", "run", "proc", "home", "etc", "dev")
    made: tuple[Record, ...] = () if target in known else (Directory(target),)
    return add(*made, Bind(path, target, attributes))


@lru_cache(maxsize=1)
def _host_directory() -> str:
    """One that everybody may write to, for two sandboxes that share what is their own."""
    path = tempfile.mkdtemp(prefix="shared-by-mutants-", dir="/tmp")
    os.chmod(path, 0o1777)  # noqa: S103 - that is what is mutated
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _shared(target: str) -> Edit:
    return lambda records: [*records, Bind(_host_directory(), target, NOSUID | NODEV)]


def _unmasked(name: str) -> Mutant:
    return Mutant(f"/proc/{name} not masked", (drop(Bind, target=f"proc/{name}"),))


def _without(attribute: int) -> Edit:
    return change(Bind, {"attributes": lambda now: now & ~attribute})


def _writable_below(place: str) -> Edit:
    """The caller's own mounts there."""

    def altered(record: Record) -> Record:
        is_one = isinstance(record, Bind) and record.target.startswith(place)
        return replace(record, attributes=record.attributes & ~RDONLY) if is_one else record

    return lambda records: [altered(record) for record in records]


def _another_device() -> str:
    """One that everybody may open, where there is one."""
    for name in ("autofs", "fuse", "kvm", "vsock"):
        if os.path.exists(f"/dev/{name}") and os.stat(f"/dev/{name}").st_mode & 0o004:
            return name
    return "kmsg"


_DEVICE = _another_device()

MOUNTS = (
    Mutant("/usr writable", (change(Bind, {"attributes": NOSUID | NODEV}, target="usr"),)),
    Mutant("/etc/ssl/certs writable", (change(Bind, {"attributes": NOSUID | NODEV}, target="etc/ssl/certs"),)),
    Mutant(
        "the root writable",
        source={
            "mounts.c": [
                ("struct mount_attr attr = { MOUNT_ATTR_RDONLY, 0, 0, 0 };", "struct mount_attr attr = { 0, 0, 0, 0 };")
            ]
        },
    ),
    Mutant("binds without nosuid", (_without(NOSUID),)),
    Mutant("binds without nodev", (_without(NODEV),)),
    Mutant("what is mounted read-only may be written", (_writable_below("mnt/"),)),
    Mutant("devices executable", (_without(NOEXEC),)),
    Mutant("scratch space without nosuid and nodev", (change(Tmpfs, {"attributes": 0}),)),
    Mutant("the host's /proc", (_host_proc,), who="root"),
    Mutant("the host's /proc over the sandbox's own", (_bound("/proc"),)),
    Mutant("/sys of the host", (_bound("/sys"),)),
    Mutant("/run of the host", (_bound("/run"),)),
    Mutant("/root of the host", (_bound("/root"),), who="root"),
    Mutant("/tmp of the host", (_bound("/tmp"),)),
    Mutant("/etc of the host", (_bound("/etc"),)),
    Mutant("/dev of the host", (_bound("/dev", attributes=NOSUID),)),
    Mutant("/dev/shm of the host", (add(Bind("/dev/shm", "dev/shm", NOSUID | NODEV)),)),
    Mutant("the host's root, at /host", (_bound("/", "host"),)),
    Mutant("a harmless device outside /dev", (add(File("null"), Bind("/dev/null", "null", NOSUID | NOEXEC)),)),
    Mutant("a device more", (add(File(f"dev/{_DEVICE}"), Bind(f"/dev/{_DEVICE}", f"dev/{_DEVICE}", NOSUID | NOEXEC)),)),
    Mutant("/tmp shared between sandboxes", (_shared("tmp"),)),
    Mutant("the workspace shared between sandboxes", (_shared("workspace"),)),
    Mutant("/home/user shared between sandboxes", (_shared("home/user"),)),
    Mutant(
        "the host's root still mounted below the new one",
        source={"mounts.c": [('must (SYS (umount2, ".", MNT_DETACH), "detach the host\'s root", "");', "")]},
    ),
    Mutant(
        "mounts as the host's: not private",
        source={
            "launch.c": [('must (SYS (mount, 0, "/", 0, MS_REC | MS_PRIVATE, 0), "private mounts", "");', "")],
            "mounts.c": [("{ bind->attributes, 0, MS_PRIVATE, 0 }", "{ bind->attributes, 0, 0, 0 }")],
        },
    ),
    Mutant(
        "/proc without nosuid, nodev and noexec",
        source={"mounts.c": [('"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0)', '"proc", 0, 0)')]},
    ),
    *(_unmasked(name) for name in host_view().masked),
)
