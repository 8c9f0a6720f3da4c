"""The mount plan: policy and host view to records, a pure function.

Order: programs, /etc, /dev, /proc, scratch space, workspace, then the caller's mounts from shallow to deep, so that the
most specific one wins. A mount point is made only where the sandbox's own empty root is; nothing is ever created in a
directory of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

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
    Symlink,
    Tmpfs,
)
from isandbox_backends.seccomp.view import HostView

WORKSPACE = "/workspace"
HOME = "/home/user"
COMMAND_UID = 1000

_USERS = (
    "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    "user:x:{uid}:{uid}:user:{home}:/bin/sh\n"
    "nobody:x:65534:65534::/:/usr/sbin/nologin\n"
)
_ETC_FILES = ("ld.so.cache", "ld.so.conf")
_GROUP = "root:x:0:\nuser:x:{uid}:\nnogroup:x:65534:\n"
_HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost\n"
# No "dns": with no network a look-up fails at once instead of asking a server that is not there.
_NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"
_RESERVED = ("/proc", "/dev", "/sys")
_SCRATCH_DEFAULT = 1 << 30


@dataclass(frozen=True, slots=True)
class Source:
    """A resolved host path that the caller mounts. ``owner_is_user``: its owner appears as the command's user."""

    path: str
    target: str
    writable: bool
    is_dir: bool
    owner_is_user: bool = False


def mount_plan(view: HostView, workspace: Source, mounts: Sequence[Source], *, scratch: int | None = None) -> list[Mountable]:
    """``scratch``: bytes of each of /tmp, /dev/shm and the home directory; 1 GiB without it."""
    size = scratch or _SCRATCH_DEFAULT
    plan = [*_programs(view), *_etc(view), *_devices(view, size), *_scratch(size), Proc("proc")]
    plan += [Bind("/dev/null", f"proc/{name}", RDONLY | NOSUID | NOEXEC) for name in view.masked]
    plan += [Directory("workspace"), _bind(workspace)]
    return plan + _callers(mounts, plan)


def writable_paths(workspace: Source, mounts: Sequence[Source]) -> list[str]:
    own = ["/tmp", "/dev/shm", HOME]  # noqa: S108 - paths inside the sandbox
    return own + [source.target for source in (workspace, *mounts) if source.writable]


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


def _devices(view: HostView, size: int) -> list[Mountable]:
    plan: list[Mountable] = [Directory("dev")]
    for name in view.devices:
        plan += [File(f"dev/{name}"), Bind(f"/dev/{name}", f"dev/{name}", NOSUID | NOEXEC)]
    links = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
    plan += [Symlink(text, f"dev/{name}") for name, text in links.items()]
    plan += [Directory("dev/pts"), Devpts("dev/pts")]
    return [*plan, Directory("dev/shm"), Tmpfs("dev/shm", f"mode=1777,size={size}")]


def _scratch(size: int) -> list[Mountable]:
    uid = COMMAND_UID
    return [
        Directory("tmp"),
        Tmpfs("tmp", f"mode=1777,size={size}"),
        Directory("home"),
        Directory("home/user"),
        Tmpfs("home/user", f"mode=0700,uid={uid},gid={uid},size={size}"),
        Directory("var"),
        Symlink("/tmp", "var/tmp"),  # noqa: S108
        Directory("run"),
        Directory("proc"),
    ]


def _bind(source: Source) -> Bind:
    attributes = NOSUID | NODEV | (0 if source.writable else RDONLY)
    # An id mapping holds for one mount; what is mounted below it has owners of its own and stays out.
    mapped = source.owner_is_user
    return Bind(source.path, source.target.lstrip("/"), attributes, idmap=mapped, recursive=not mapped)


def _callers(mounts: Sequence[Source], inside: Sequence[Mountable]) -> list[Mountable]:
    """``inside``: the plan so far, which says where directories can be made and where the host's begin."""
    plan: list[Mountable] = []
    made = {f"/{record.target}": record for record in inside if isinstance(record, (Directory, File, Symlink))}
    covered = [PurePosixPath("/", record.target) for record in inside if isinstance(record, Bind)]
    for source in sorted(mounts, key=lambda m: (m.target.count("/"), m.target)):
        target = PurePosixPath(source.target)
        if any(target.is_relative_to(reserved) for reserved in _RESERVED):
            raise ConfigurationError(f"mounts: nothing of the host may stand at {target}: the sandbox has its own")
        if not any(target.is_relative_to(place) for place in covered):
            plan += _mount_point(target, source.is_dir, made)
        plan.append(_bind(source))
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
            raise ConfigurationError(f"mounts: {target}: {place} is a link to {record.text} inside; name the place itself")
        elif isinstance(record, File) != wants_file:
            kinds = ("file", "directory") if isinstance(record, File) else ("directory", "file")
            raise ConfigurationError(f"mounts: {target}: {place} is a {kinds[0]} inside, not a {kinds[1]}")
    return plan
