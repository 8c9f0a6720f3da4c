"""The `seccomp` backend: policy to plan, plan to sandbox."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from errno import EMFILE, ENFILE, ENOMEM
from functools import partial
from typing import TYPE_CHECKING

from isandbox._text import plain
from isandbox.backend import Backend
from isandbox.errors import ConfigurationError, SandboxError, UnsupportedError
from isandbox_backends._shared.helper import helper_missing, machine
from isandbox_backends._shared.holding import hold, usable_controllers, with_groups
from isandbox_backends._shared.limits import affinity_records, check_cpus, hard_open_files, limit_records
from isandbox_backends._shared.plan import Hostname, IdMaps, Mode, ModeRecord, Record, Seccomp, Sysctl
from isandbox_backends._shared.protocol import Layer
from isandbox_backends._shared.sources import real_source
from isandbox_backends._shared.start import Blueprint, start_async, start_blocking
from isandbox_backends.seccomp.capabilities import CAPABILITIES
from isandbox_backends.seccomp.explain import explain
from isandbox_backends.seccomp.filter import compile_filter
from isandbox_backends.seccomp.landlock import landlock_records
from isandbox_backends.seccomp.mounts import COMMAND_UID, HOME, WORKSPACE, Source, mount_plan, writable_paths
from isandbox_backends.seccomp.options import SeccompOptions
from isandbox_backends.seccomp.view import host_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox.backend import CreateRequest
    from isandbox.policy import Capabilities, Policy, Quotas
    from isandbox.sandbox import ISandbox
    from isandbox.sync.sandbox import ISandbox as BlockingSandbox
    from isandbox_backends._shared.protocol import Hello
    from isandbox_backends.seccomp.profiles import ProfileName

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET of linux/sched.h
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
# Root maps a range of ids that nobody has: 65,536 of them per sandbox, from 2**30 on.
_RANGE = 65_536
_FIRST_ID = 1 << 30
_RANGES = 8_192

# Of the sandbox's own user namespace. The kernel counts inotify for the user who made the namespace as well: 128 instances
# for everything that this user runs. And a second layer under the filter: no user namespaces inside.
_SYSCTLS = (
    Sysctl("user/max_inotify_instances", "32"),
    Sysctl("user/max_inotify_watches", "65536"),
    Sysctl("user/max_user_namespaces", "0"),
)

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": HOME,
    "USER": "user",
    "LOGNAME": "user",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "TMPDIR": "/tmp",  # noqa: S108 - inside the sandbox
}


class SeccompBackend(Backend):
    """Namespaces, a mount view of its own, Landlock, a seccomp filter, rlimits. Linux x86-64 and aarch64, root or not."""

    name = "seccomp"
    options = SeccompOptions
    waivable = frozenset({"landlock"})

    def unavailable(self) -> str | None:
        if (missing := helper_missing()) is not None:
            return missing
        try:
            with open("/proc/sys/user/max_user_namespaces", "rb", buffering=0) as file:
                if int(file.read()) == 0:
                    return "user namespaces are off: sysctl -w user.max_user_namespaces=65536"
        except OSError as error:
            if error.errno in (EMFILE, ENFILE, ENOMEM):
                return f"this process cannot open files: {error.strerror}"
            return "this kernel has no user namespaces (CONFIG_USER_NS)"
        return None

    def capabilities(self) -> Capabilities:
        return replace(CAPABILITIES, quotas=with_groups(CAPABILITIES.quotas, usable_controllers()))

    async def create(self, request: CreateRequest) -> ISandbox:
        return await start_async(self._blueprint(request))

    def create_blocking(self, request: CreateRequest) -> BlockingSandbox:
        return start_blocking(self._blueprint(request))

    def check(self, policy: Policy, options: SeccompOptions) -> None:
        check_cpus(policy, self.name, hold(policy, options.cgroup, self.name).held)
        if policy.quotas.disk is not None and "disk" not in policy.waive and policy.workspace is not None:
            raise UnsupportedError(
                "quotas.disk: this workspace is a directory of the host, which has no limit of its own; leave workspace out, "
                "or waive={'disk'}",
                option="quotas.disk",
                backend=self.name,
            )

    def _blueprint(self, request: CreateRequest) -> Blueprint:
        policy = request.policy
        holding = hold(policy, request.options.cgroup, self.name)
        root = os.geteuid() == 0
        mounts = [_source(mount.source, "mount source", mount.target, mount.mode == "rw") for mount in policy.mounts]
        try:
            host_view()
        except OSError as error:  # only the first time: it is remembered
            raise SandboxError(f"the sandbox did not start: the host cannot be looked at: {error}") from error
        first_id = _FIRST_ID + _RANGE * random.randrange(_RANGES) if root else None  # noqa: S311 - not a secret
        return Blueprint(
            backend=self.name,
            capabilities=replace(CAPABILITIES, quotas=with_groups(CAPABILITIES.quotas, holding.controllers)),
            request=request,
            plan=compile_plan(policy, _workspace(policy), mounts, first_id, holding.held, profile=request.options.profile),
            holding=holding,
            env={**ENVIRONMENT, **policy.env},
            cwd=WORKSPACE,
            workspace=WORKSPACE,
            layers=partial(_layers, request.options.profile),
            explain=explain,
            command_owner=None if first_id is None else first_id + COMMAND_UID,
        )


def compile_plan(
    policy: Policy,
    workspace: Source | None,
    mounts: list[Source],
    first_id: int | None,
    held: frozenset[str] = frozenset(),
    *,
    profile: ProfileName = "default",
) -> list[Record]:
    """The whole policy as records. ``first_id``: start of the id range that root maps; ``None`` for an ordinary user.
    ``held``: quotas that a control group holds. ``profile``: of system calls.
    """
    quotas = policy.quotas
    split = first_id is not None
    uid, gid = (first_id, first_id) if split else (os.geteuid(), os.getegid())
    maps = f"0 {uid} {_RANGE}" if split else f"{COMMAND_UID} {uid} 1"
    flags = Mode.NAMESPACES | Mode.LOOPBACK | (Mode.SPLIT_UID | Mode.OPEN_EARLY if split else Mode(0))
    mode = ModeRecord(
        flags=flags,
        clone_flags=_NAMESPACES,
        command_uid=COMMAND_UID,
        command_gid=COMMAND_UID,
        pids=quotas.pids or 0,
        memory=0 if "memory" in held else quotas.size("memory") or 0,
        cpu_ns=int((quotas.cpu_time or 0) * 1e9),
    )
    return [
        mode,
        IdMaps(maps, maps if split else f"{COMMAND_UID} {gid} 1"),
        *mount_plan(host_view(), workspace, mounts, scratch=_scratch_size(quotas)),
        *_SYSCTLS,
        Hostname("sandbox"),
        *limit_records(quotas, hard_open_files=hard_open_files(), held=held),
        *affinity_records(policy, held),
        *landlock_records(writable_paths(workspace, mounts), waived="landlock" in policy.waive),
        Seccomp(compile_filter(machine(), profile=profile, pin_cpus=quotas.cpus is not None and "cpus" not in held)),
    ]


def _scratch_size(quotas: Quotas) -> int | None:
    """The disk quota, and at most half of the memory quota: a full tmpfs leaves room for the command that empties it."""
    memory, disk = quotas.size("memory"), quotas.size("disk")
    return min((size for size in (disk, memory and max(4096, memory // 2)) if size is not None), default=None)


def _workspace(policy: Policy) -> Source | None:
    """The caller's directory, or ``None`` for one in scratch space."""
    if policy.workspace is None:
        return None
    source = _source(policy.workspace.path, "workspace", WORKSPACE, policy.workspace.mode == "rw")
    if not source.is_dir:
        raise ConfigurationError(f"workspace: {plain(source.path)} is not a directory")
    return source


def _source(path: str, what: str, target: str, writable: bool) -> Source:
    real = real_source(path, what)
    # Root's sandboxes have ids of their own: what is mounted must appear as theirs. A user's sandbox is the user.
    return Source(real, target, writable=writable, is_dir=os.path.isdir(real), owner_is_user=os.geteuid() == 0)


def _layers(profile: ProfileName, hello: Hello) -> Mapping[str, str]:
    landlock = f"enforced (ABI {hello.landlock_abi})" if Layer.LANDLOCK in hello.layers else "absent (waived)"
    split = "enforced" if Layer.SPLIT_UID in hello.layers else "absent (needs root: one id is all that a user can map)"
    namespaces = ("user", "mount", "pid", "ipc", "uts", "cgroup", "net")
    return {
        **{f"{name} namespace": "enforced" for name in namespaces},
        "capabilities": "enforced",
        "no_new_privs": "enforced",
        "seccomp": f"enforced (profile {profile})",
        "landlock": landlock,
        "separate uid for the helper": split,
    }
