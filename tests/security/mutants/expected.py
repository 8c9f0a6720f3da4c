"""What becomes of each mutant. Found by `find.py`, held by `test_mutants.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Fate:
    """``killers``: probes that turn red, the quickest first. ``refused``: a part of what the start says, also when the layers are
    not looked at. ``at_start``: the layer that the start names when it does look. ``quick``: tried in each run.

    ``held_by``: the layer that holds without this one, so that no probe turns red by it alone. ``proof``: the mutants without
    which, together with this one, ``killers`` do turn red, and do not without this one. A fate without proof and not seen at
    the start says why no machine like the one that this was found on can tell.
    """

    killers: tuple[str, ...] = ()
    refused: str = ""
    at_start: str = ""
    held_by: str = ""
    proof: tuple[str, ...] = ()
    said: str = ""
    """A part of what the killer finds without both, and does not say without the other alone."""
    quick: bool = False


def killed(*probes: str, at_start: str = "", quick: bool = False) -> Fate:
    return Fate(killers=probes, at_start=at_start, quick=quick)


def refused(text: str, *, quick: bool = False) -> Fate:
    return Fate(refused=text, quick=quick)


def held(
    by: str,
    *,
    without: tuple[str, ...] = (),
    red: tuple[str, ...] = (),
    said: str = "",
    at_start: str = "",
    quick: bool = False,
) -> Fate:
    """``without``: further mutants. ``red``: the probes that then turn red."""
    return Fate(killers=red, held_by=by, proof=without, said=said, at_start=at_start, quick=quick)


_RECORD = "B09-record"
_MASKED = killed("A18")
_MANY_CALLS = killed("B14")
_AS_HOST = ("the host's root still mounted below the new one",)
_USERNS = ("user namespaces inside",)
_ALL_CAPABILITIES = ("all capabilities kept by commands",)


def _mounted_read_only(said: str, *more: str, quick: bool = False) -> Fate:
    """Landlock says again what a mount says: without the latter it is what still refuses this."""
    without = ("what is mounted read-only may be written", *more)
    return held("read-only mounts", without=without, red=("A06-readonly",), said=said, quick=quick)


_VIEW: Mapping[str, Fate] = {
    "no mount namespace": refused("plan", quick=True),
    "no user namespace": refused("plan"),
    "no pid namespace": refused("plan"),
    "no network namespace": killed("A27", quick=True),
    "no ipc namespace": killed("A28", quick=True),
    "no cgroup namespace": killed("A17-place", quick=True),
    "no uts namespace": refused("hostname"),
    "no uts namespace, and no host name of its own": killed("A18-name", quick=True),
    "no pid namespace, with the host's /proc and a helper that does not look": killed("B05", "A04"),
    "no user namespace, and a helper that does not look": killed(_RECORD, at_start="user_namespace"),
    "/usr writable": killed(_RECORD, quick=True),
    "/etc/ssl/certs writable": killed(_RECORD),
    "the root writable": killed(_RECORD, at_start="mounts"),
    "binds without nosuid": killed(_RECORD),
    "binds without nodev": killed("A14-mounted", quick=True),
    "what is mounted read-only may be written": killed("A06-readonly", quick=True),
    "/usr writable, for the host's root and without Landlock": killed("A06-programs"),
    "devices executable": killed(_RECORD),
    "scratch space without nosuid and nodev": killed(_RECORD, at_start="mounts"),
    "the host's /proc": killed("B05", "A04"),
    "the host's /proc over the sandbox's own": refused("sysctl"),
    "/sys of the host": killed("A18", _RECORD, quick=True),
    "/run of the host": killed("A01-directories"),
    "/root of the host": killed("A01-directories"),
    "/tmp of the host": killed("A06", "A03"),
    "/etc of the host": killed("A01-system", quick=True),
    "/dev of the host": killed("A14-open", "A28"),
    "/dev/shm of the host": killed("A28"),
    "the host's root, at /host": killed("A14-open", "A25", quick=True),
    "a harmless device outside /dev": held(
        "Landlock: no device outside /dev is controlled",
        without=("Landlock without the right to control devices",),
        red=("A14-open",),
    ),
    "a device more": killed("A14-open", quick=True),
    "/tmp shared between sandboxes": killed("A29", "A02", quick=True),
    "the workspace shared between sandboxes": killed("A29", "A02"),
    "/home/user shared between sandboxes": killed("A29", "A02"),
    "the host's root still mounted below the new one": killed("A19", "A24"),
    "mounts as the host's: not private": killed("A13-later"),
    "/proc without nosuid, nodev and noexec": killed(_RECORD, at_start="mounts"),
    "/proc/kallsyms not masked": held("the kernel: it shows addresses to CAP_SYSLOG of the host only, here (kptr_restrict)"),
    **{
        f"/proc/{name} not masked": _MASKED
        for name in ("keys", "key-users", "interrupts", "modules", "cmdline", "sched_debug")
    },
    "/proc/latency_stats not masked": _MASKED,
}
_PRIVILEGE: Mapping[str, Fate] = {
    "a user namespace that the caller owns": held(
        "limit on inotify instances", without=("no limit on inotify instances",), red=("C17-counted",)
    ),
    "commands with the helper's uid": killed("B09", quick=False),
    "not split, and the host's root": refused("mkdir", quick=True),
    "the host's own ids": killed(_RECORD, quick=True),
    "one range of ids for all sandboxes": held(
        "limit on inotify instances", without=("no limit on inotify instances",), red=("C17-counted",)
    ),
    "the caller's groups kept": killed(_RECORD, at_start="groups"),
    "all capabilities kept by commands": killed("B09"),
    "all capabilities kept by the helper": held(
        "exec: a command that is not root loses them, and securebits take root's", at_start="capabilities"
    ),
    "the bounding set kept": killed("B09"),
    "no securebits": killed(_RECORD, at_start="capabilities", quick=True),
    "no_new_privs not set": refused("landlock"),
    "no_new_privs not set, capabilities dropped last": killed("B09"),
    "the helper dumpable": held(
        "another uid, and more capabilities than a command has",
        without=("commands with the helper's uid", *_ALL_CAPABILITIES),
        red=("B01-keeper",),
    ),
    "the caller's keyring": held("filter: no call reaches a keyring", at_start="keyring", quick=True),
    "no Landlock": killed("A16", quick=True),
    "Landlock without scopes": held(
        "net namespace, pid namespace", without=("no network namespace",), red=("A27",), said="stream: ok"
    ),
    "Landlock: writes anywhere": killed("A16"),
    "Landlock without the right to execute": held(
        "mount view", without=(*_AS_HOST, "Landlock without the right to read files"), red=("A01",), said="run /"
    ),
    "Landlock without the right to write files": killed("A16"),
    "Landlock without the right to read files": held("mount view", without=_AS_HOST, red=("A01",)),
    "Landlock without the right to read directories": held("mount view", without=_AS_HOST, red=("A01",)),
    "Landlock without the right to remove": _mounted_read_only("unlink: ok"),
    "Landlock without the right to make devices": held("the kernel: it asks for CAP_MKNOD of the host", at_start="landlock"),
    "Landlock without the right to make files": _mounted_read_only("directory: ok", quick=True),
    "Landlock without the right to refer": _mounted_read_only(
        "link to another directory: ok", "Landlock without the right to make files"
    ),
    "Landlock without the right to truncate": _mounted_read_only("truncate: ok"),
    "Landlock without the right to control devices": held(
        "mount view: there are no devices but those in /dev", without=("a harmless device outside /dev",), red=("A14-open",)
    ),
}
_FILTERED = "seccomp"
_FILTER: Mapping[str, Fate] = {
    "no filter": killed("B15", quick=True),
    "filter: other architectures pass": killed("B11", quick=True),
    "filter: numbers past the newest pass": killed("B14-reachable"),
    "filter: io_uring": killed("B15"),
    "filter: clone3": held("user.max_user_namespaces, and no capability", without=_USERNS, red=("B08",), at_start=_FILTERED),
    "filter: unshare": held("user.max_user_namespaces, and no capability", without=_USERNS, red=("B08",), quick=True, at_start=_FILTERED),
    "filter: clone with any flags": held("user.max_user_namespaces, and no capability", without=_USERNS, red=("B08",), at_start=_FILTERED),
    "filter: a new user namespace by clone": held("user.max_user_namespaces", without=_USERNS, red=("B08",), at_start=_FILTERED),
    "filter: host names": held("no capability", without=_ALL_CAPABILITIES, red=("B14",), at_start=_FILTERED),
    "filter: kexec, reboot and modules": held("no capability", without=_ALL_CAPABILITIES, red=("B14",), at_start=_FILTERED),
    "filter: the kernel's log": held("the kernel: dmesg_restrict here asks for CAP_SYSLOG of the host", at_start=_FILTERED),
    "filter: terminals": held("the kernel: it asks for CAP_SYS_TTY_CONFIG of the host", at_start=_FILTERED),
    "filter: openat2": killed("A21"),
    "filter: leases": killed("A06-lease", quick=True),
    "filter: set-user-id modes": killed("A21"),
    "filter: any socket": killed("B28"),
    "filter: AF_VSOCK": killed("B28"),
    "filter: AF_ALG": held("this kernel has no such sockets", at_start=_FILTERED),
    "filter: AF_PACKET": held("no capability over the net namespace", at_start=_FILTERED),
    "filter: pairs of any family": held("the kernel has no pairs of them; the rule keeps their modules from being loaded", at_start=_FILTERED),
    "filter: netlink for anything": killed("B28-protocols", quick=True),
    "filter: any protocol of IPv4": killed("B28-protocols"),
    "filter: any ioctl": killed("B06"),
    "filter: TIOCSTI": killed("B06"),
    "filter: TIOCLINUX": held("the kernel: only a console of the machine has it", at_start=_FILTERED),
    "filter: TIOCSETD": held("the kernel: it asks for CAP_SYS_ADMIN, or has no module to load", at_start=_FILTERED),
    "filter: TIOCCONS": held("the kernel: it asks for CAP_SYS_ADMIN of the host", at_start=_FILTERED),
    "filter: limits of other processes": held("another uid than the helper's, and the pid namespace", at_start=_FILTERED),
    "filter: priorities of the first process": held("another uid than the helper's, and the pid namespace", at_start=_FILTERED),
    **{
        f"filter: {name}": _MANY_CALLS
        for name in (
            "the new mount calls", "memfd_secret", "lsm_set_self_attr", "setns", "mount", "chroot", "ptrace", "keys", "bpf",
            "perf_event_open", "userfaultfd", "file handles", "swap, accounting and quota", "what old kernels had",
            "ports and segments", "fanotify", "clocks", "memory policy", "vmsplice", "page cache and pages of others",
            "any personality",
        )
    },
}  # fmt: skip
_LIMITS: Mapping[str, Fate] = {
    "no limit on core dumps": killed("A16-core"),
    "no limit on nice": held("the host process's own limit, which is as low here"),
    "no limit on real time": held("the host process's own limit, which is as low here"),
    "no limit on open files": killed("C07"),
    "no limit on file size": killed("C05-size", quick=True),
    "no limit on CPU time": held(
        "watcher: the limit is for what it could not look at",
        without=("the watcher does not look",),
        red=("C10-time",),
        said="each process ends soon after",
    ),
    "no limit on data": held("watcher: the limit is for what it could not look at", red=("C01",)),
    "no limit on processes": killed("B22"),
    "no memory for the watcher to hold": killed("C01"),
    "no CPU time for the watcher to hold": killed("C10-time"),
    "no affinity": killed("C10"),
    "scratch space without a size": killed("C05-names"),
    "scratch space without a number of files": killed("C05-names"),
    "terminals without a share": killed("C17-counted"),
    "no limit on inotify instances": held(
        "ids: the kernel counts for the owner of the namespace, who is nobody else",
        without=("a user namespace that the caller owns",),
        red=("C17-counted",),
    ),
    "no limit on inotify watches": held(
        "ids: the kernel counts for the owner of the namespace, who is nobody else",
        without=("a user namespace that the caller owns",),
        red=("C17-counted",),
    ),
    "user namespaces inside": held("filter", without=("filter: unshare",), red=("B08",)),
    "control groups not joined": killed("C01"),
    "no control group": held("watcher", without=("the watcher does not look",), red=("C01",)),
    "the watcher does not look": killed("C10-time"),
    "what a command started lives on": killed("B18"),
    "commands in the helper's session": killed("B03-command", quick=True),
    "the helper in the caller's session": held(
        "a session of each command's own", without=("commands in the helper's session",), red=("B06",)
    ),
    "a keeper that is no subreaper": killed("B18"),
    "a stop is taken for an end": killed("B24"),
    "the umask of nobody": killed("A21-mode", quick=True),
    "signals as the host has them": killed(_RECORD),
}  # fmt: skip
_START, _KEEPER, _COMMAND = (
    "descriptors of the host kept by the helper",
    "descriptors of the helper kept by keepers",
    "descriptors of keepers kept by commands",
)
_HOST: Mapping[str, Fate] = {
    "the host's environment in commands": killed("A04-inherited", quick=True),
    "the host's environment in the helper": held(
        "another uid, dumpable 0, and more capabilities than a command has: nobody reads it",
        without=("the helper dumpable", "commands with the helper's uid", *_ALL_CAPABILITIES),
        red=("A04-inherited",),
    ),
    # Without the other two a command has what the helper itself keeps.
    _START: held(
        "closed again by the keeper and the command",
        without=(_KEEPER, _COMMAND),
        red=("A23",),
        said="canary",
        at_start="descriptors",
    ),
    _KEEPER: held("closed before by the helper", without=(_START, _COMMAND), red=("A23",)),
    _COMMAND: held("closed before by the helper", without=(_START, _KEEPER), red=("A23",)),
    "all descriptors kept": killed("A23"),
}

_ALL: Mapping[str, Fate] = {**_VIEW, **_PRIVILEGE, **_FILTER, **_LIMITS, **_HOST}
# Where commands have the user's id, or the helper's.
_OF_A_USER: Mapping[str, Fate] = {
    "the helper dumpable": killed("B01-keeper"),
    "no limit on inotify instances": killed("C17-counted"),
    "no limit on inotify watches": killed("C17-counted"),
    "mounts as the host's: not private": held("the kernel: only root could mount on the host what would come inside"),
    "the host's environment in the helper": held(
        "dumpable 0: nobody reads it", without=("the helper dumpable",), red=("A04-inherited",)
    ),
}
_WITH_PRIORITIES: Mapping[str, Fate] = {"no limit on nice": killed("B23"), "no limit on real time": killed("B23")}


def fates(names: Iterable[str], *, root: bool, priorities: bool) -> dict[str, Fate]:
    """Of these mutants. ``priorities``: the host's process may have better ones. Raises `KeyError` for one that has none."""
    table = {**_ALL, **({} if root else _OF_A_USER), **(_WITH_PRIORITIES if priorities else {})}
    return {name: table[name] for name in names}
