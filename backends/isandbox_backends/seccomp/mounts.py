"""The mount plan: policy and host view to records, a pure function.

Order: programs, /etc, /dev, /proc, scratch space, workspace, then the caller's mounts from shallow to deep, so that the
most specific one wins, each followed by the covers over what it must not show. A mount point is made only where the sandbox's
own empty root is; nothing is ever created in a directory of the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from isandbox._text import plain
from isandbox.errors import ConfigurationError
from isandbox_backends._shared.plan import (
    NODEV,
    NOEXEC,
    NOSUID,
    RDONLY,
    Bind,
    Devpts,
    Directory,
    File,
    Mountable,
    Proc,
    Rebind,
    Symlink,
    Tmpfs,
)
from isandbox_backends.seccomp.covers import Source, plan_covers
from isandbox_backends.seccomp.view import HostView

WORKSPACE = "/workspace"
HOME = "/home/user"
COMMAND_UID = 1000

_USERS = (
    "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    "user:x:{uid}:{uid}:user:{home}:/bin/sh\n"
    "nobody:x:65534:65534::/:/usr/sbin/nologin\n"
)
_ETC_FILES = ("ld.so.cache",)
_GROUP = "root:x:0:\nuser:x:{uid}:\nnogroup:x:65534:\n"
_HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost\n"
# No "dns": with no network a look-up fails at once instead of asking a server that is not there.
_NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"
_RESERVED = ("/proc", "/dev", "/sys")


def mount_plan(
    view: HostView, workspace: Source | None, mounts: Sequence[Source], *, scratch: int | None = None
) -> list[Mountable]:
    """``workspace``: ``None`` for one in scratch space. ``scratch``: bytes of all scratch space together, which is one
    tmpfs; without it half of the machine's memory, tmpfs's own default.

    Raises `ConfigurationError` for two mounts at one place, and for a place where none can stand.
    """
    everything = [*mounts] if workspace is None else [workspace, *mounts]
    _all_differ(everything)
    covers = plan_covers(sorted(everything, key=lambda source: source.target))
    inside: list[Mountable] = [*covers.store, Directory("workspace")]
    if workspace is None:
        inside.append(Rebind("tmp/workspace", "workspace"))
    else:
        inside += [_bind(workspace), *covers.after.pop(WORKSPACE, ())]
    # Last, over the tmpfs itself: from here on /tmp is only its own directory of it.
    plan = [*_same_for_all(view, scratch), *inside, Rebind("tmp/tmp", "tmp")]
    return plan + _callers(mounts, plan, covers.after) if mounts else plan


def _all_differ(sources: Sequence[Source]) -> None:
    taken: dict[str, str] = {}
    for source in sorted(sources, key=lambda source: (source.target, source.path)):
        if source.target in taken:
            both = f"both {plain(taken[source.target])} and {plain(source.path)}"
            raise ConfigurationError(f"mounts: {both} at {plain(source.target)}; give one of them another place")
        taken[source.target] = source.path


def writable_paths(workspace: Source | None, mounts: Sequence[Source]) -> list[str]:
    own = ["/tmp", "/dev/shm", HOME]  # noqa: S108 - paths inside the sandbox
    if workspace is None or workspace.writable:
        own.append(WORKSPACE)
    return own + [source.target for source in mounts if source.writable]


@lru_cache(maxsize=8)
def _same_for_all(view: HostView, scratch: int | None) -> tuple[Mountable, ...]:
    masks = [Bind("/dev/null", f"proc/{name}", RDONLY | NOSUID | NOEXEC) for name in view.masked]
    return (*_programs(view), *_etc(view), *_devices(view), *_scratch(scratch), Directory("proc"), Proc("proc"), *masks)


def _programs(view: HostView) -> list[Mountable]:
    plan: list[Mountable] = [Directory("usr"), Bind("/usr", "usr")]
    for name in view.directories:
        plan += [Directory(name), Bind(f"/{name}", name)]
    return plan + [Symlink(text, name) for name, text in view.links]


def _etc(view: HostView) -> list[Mountable]:
    plan: list[Mountable] = [
        Directory("etc"),
        Directory("etc/ssl"),
        File("etc/passwd", _USERS.format(uid=COMMAND_UID, home=HOME).encode()),
        File("etc/group", _GROUP.format(uid=COMMAND_UID).encode()),
        File("etc/hosts", _HOSTS.encode()),
        File("etc/nsswitch.conf", _NSSWITCH.encode()),
        File("etc/hostname", b"sandbox\n"),
        File("etc/resolv.conf"),
        Symlink("/proc/self/mounts", "etc/mtab"),
    ]
    plan += [File(f"etc/{name}", content) for name, content in view.etc_copies]
    plan += [Symlink(text, f"etc/{name}") for name, text in view.etc_links]
    for name in view.etc_binds:
        plan += [File(f"etc/{name}") if name in _ETC_FILES else Directory(f"etc/{name}")]
        plan += [Bind(f"/etc/{name}", f"etc/{name}")]
    return plan


def _devices(view: HostView) -> list[Mountable]:
    plan: list[Mountable] = [Directory("dev")]
    for name in view.devices:
        plan += [File(f"dev/{name}"), Bind(f"/dev/{name}", f"dev/{name}", NOSUID | NOEXEC)]
    links = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
    plan += [Symlink(text, f"dev/{name}") for name, text in links.items()]
    return [*plan, Directory("dev/pts"), Devpts("dev/pts"), Directory("dev/shm")]


def _room(size: int) -> str:
    """Bytes, and as many files as there are pages in them: an empty file takes kernel memory too."""
    return f"size={size},nr_inodes={max(size // 4096, 1024)}"


def _scratch(size: int | None) -> list[Mountable]:
    """One tmpfs for everything that is writable and goes with the sandbox: one quota, nothing on the host's disk."""
    return [
        Directory("tmp"),
        Tmpfs("tmp", "mode=0755" if size is None else f"mode=0755,{_room(size)}"),
        Directory("tmp/tmp", 0o1777),
        Directory("tmp/shm", 0o1777),
        Directory("tmp/home", 0o700, owned=True),
        Directory("tmp/workspace", 0o755, owned=True),
        Rebind("tmp/shm", "dev/shm"),
        Directory("home"),
        Directory("home/user"),
        Rebind("tmp/home", "home/user"),
        Directory("var"),
        Symlink("/tmp", "var/tmp"),  # noqa: S108
        Directory("run"),
    ]


def _bind(source: Source) -> Bind:
    attributes = NOSUID | NODEV | (0 if source.writable else RDONLY)
    # An id mapping holds for one mount; what is mounted below it has owners of its own and stays out.
    # Writing must be as the owner; reading may fall back to the owner that everybody sees.
    mapped = source.owner_is_user
    idmap = (1 if source.writable else 2) if mapped else 0
    return Bind(source.path, source.target.lstrip("/"), attributes, idmap=idmap, recursive=not mapped)


def _callers(mounts: Sequence[Source], inside: Sequence[Mountable], after: Mapping[str, list[Mountable]]) -> list[Mountable]:
    """``inside``: the plan so far, which says where directories can be made and where the host's begin. ``after``: what follows
    a mount, by its target.
    """
    plan: list[Mountable] = []
    entries = [record for record in inside if isinstance(record, (Directory, File, Symlink))]
    # What was made below tmp is covered by its own directory of it.
    made = {f"/{record.target}": record for record in entries if not record.target.startswith("tmp/")}
    covered = [PurePosixPath("/", record.target) for record in inside if isinstance(record, Bind)]
    for source in sorted(mounts, key=lambda m: (m.target.count("/"), m.target)):
        target = PurePosixPath(source.target)
        if any(target.is_relative_to(reserved) for reserved in _RESERVED):
            raise ConfigurationError(f"mounts: nothing of the host may stand at {plain(str(target))}: the sandbox has its own")
        if not any(target.is_relative_to(place) for place in covered):
            plan += _mount_point(target, source.is_dir, made)
        plan += [_bind(source), *after.get(source.target, ())]
        covered.append(target)
    return plan


def _mount_point(target: PurePosixPath, is_dir: bool, made: dict[str, Directory | File | Symlink]) -> list[Mountable]:
    """What is missing of ``target`` and the directories above it; refused where something else is in the way."""
    plan: list[Mountable] = []
    for place in [*reversed(target.parents[:-1]), target]:
        record = made.get(str(place))
        wants_file = place == target and not is_dir
        if record is None:
            record = (File if wants_file else Directory)(str(place)[1:])
            made[str(place)] = record
            plan.append(record)
        elif isinstance(record, Symlink):
            raise ConfigurationError(
                f"mounts: {plain(str(target))}: {plain(str(place))} is a link to {record.text} inside; name the place itself"
            )
        elif isinstance(record, File) != wants_file:
            kinds = ("file", "directory") if isinstance(record, File) else ("directory", "file")
            raise ConfigurationError(
                f"mounts: {plain(str(target))}: {plain(str(place))} is a {kinds[0]} inside, not a {kinds[1]}"
            )
    return plan
