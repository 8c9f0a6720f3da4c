"""The `seccomp` backend: policy to plan, plan to sandbox."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from isandbox.errors import SandboxError, UnsupportedError
from isandbox_backends._shared.helper import helper_missing, machine
from isandbox_backends._shared.holding import hold, usable_controllers, with_groups
from isandbox_backends._shared.lifecycle import NativeBackend
from isandbox_backends._shared.limits import affinity_records, check_cpus, hard_open_files, limit_records
from isandbox_backends._shared.plan import Hostname, Mode, ModeRecord, Record, Seccomp, Sysctl
from isandbox_backends._shared.portable import is_passing
from isandbox_backends._shared.protocol import Layer, hash_filter
from isandbox_backends._shared.start import Blueprint, start_async, start_blocking
from isandbox_backends.seccomp.capabilities import CAPABILITIES
from isandbox_backends.seccomp.covers import Source
from isandbox_backends.seccomp.explain import explain
from isandbox_backends.seccomp.filter import compile_filter
from isandbox_backends.seccomp.identity import Identity, identify, is_ready, look, make_ready
from isandbox_backends.seccomp.identity import check as check_ids
from isandbox_backends.seccomp.landlock import landlock_records
from isandbox_backends.seccomp.layers import WAIVABLE_NAMES, OfIds, expected, verified
from isandbox_backends.seccomp.mounts import COMMAND_UID, HOME, WORKSPACE, mount_plan, writable_paths
from isandbox_backends.seccomp.options import SeccompOptions
from isandbox_backends.seccomp.sources import mounted
from isandbox_backends.seccomp.view import host_view, outside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from isandbox.backend import CreateRequest
    from isandbox.policy import Capabilities, Policy, Quotas
    from isandbox.sandbox import ISandbox
    from isandbox.sync.sandbox import ISandbox as BlockingSandbox
    from isandbox_backends._shared.holding import Holding
    from isandbox_backends.seccomp.ids import Ids
    from isandbox_backends.seccomp.layers import Expected
    from isandbox_backends.seccomp.profiles import ProfileName
    from isandbox_backends.seccomp.subordinate import Grant, Refused

# CLONE_NEW* of linux/sched.h
_NAMESPACES = {
    Layer.MOUNT_NAMESPACE: 0x00020000,
    Layer.CGROUP_NAMESPACE: 0x02000000,
    Layer.UTS_NAMESPACE: 0x04000000,
    Layer.IPC_NAMESPACE: 0x08000000,
    Layer.USER_NAMESPACE: 0x10000000,
    Layer.PID_NAMESPACE: 0x20000000,
    Layer.NET_NAMESPACE: 0x40000000,
}

_MOST_WATCHES = 65536


@lru_cache(maxsize=1)
def _sysctls() -> tuple[Sysctl, ...]:
    """Of the sandbox's own user namespace.

    The kernel counts inotify for the user who made the namespace as well: 128 instances for everything that this user runs, and
    as many watches as a hundredth of the machine's memory holds (fs/notify/inotify/inotify_user.c), of which one sandbox has a
    quarter at most. And a second layer under the filter: no user namespaces inside.
    """
    try:
        with open("/proc/sys/fs/inotify/max_user_watches", "rb", buffering=0) as file:
            watches = min(_MOST_WATCHES, int(file.read()) // 4)
    except OSError:  # a kernel without inotify
        watches = _MOST_WATCHES
    return (
        Sysctl("user/max_inotify_instances", "32"),
        Sysctl("user/max_inotify_watches", str(watches)),
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


class SeccompBackend(NativeBackend):
    """Namespaces, a mount view of its own, Landlock, a seccomp filter, rlimits. Linux x86-64 and aarch64, root or not."""

    name = "seccomp"
    options = SeccompOptions
    waivable = WAIVABLE_NAMES

    def unavailable(self) -> str | None:
        if (missing := helper_missing()) is not None:
            return missing
        try:
            with open("/proc/sys/user/max_user_namespaces", "rb", buffering=0) as file:
                if int(file.read()) == 0:
                    return "user namespaces are off: sysctl -w user.max_user_namespaces=65536"
        except OSError as error:
            if is_passing(error):
                return f"this process cannot open files: {error.strerror}"
            return "this kernel has no user namespaces (CONFIG_USER_NS)"
        return None

    def capabilities(self) -> Capabilities:
        return replace(CAPABILITIES, quotas=with_groups(CAPABILITIES.quotas, usable_controllers()))

    async def create(self, request: CreateRequest) -> ISandbox:
        holding = hold(request.policy, request.options.cgroup, self.name)
        mappable = look(request.options, holding.place)
        if not is_ready(mappable):
            # A thread: programs are run, and nothing else may wait for them.
            mappable, left = await asyncio.to_thread(make_ready, mappable, request.start_timeout)
            request = replace(request, start_timeout=left)
        with self._blueprint(request, holding, mappable) as blueprint:
            return await start_async(blueprint)

    def create_blocking(self, request: CreateRequest) -> BlockingSandbox:
        holding = hold(request.policy, request.options.cgroup, self.name)
        mappable = look(request.options, holding.place)
        if not is_ready(mappable):
            mappable, left = make_ready(mappable, request.start_timeout)
            request = replace(request, start_timeout=left)
        with self._blueprint(request, holding, mappable) as blueprint:
            return start_blocking(blueprint)

    def check(self, policy: Policy, options: SeccompOptions) -> None:
        holding = hold(policy, options.cgroup, self.name)
        check_ids(options, holding.place)
        check_cpus(policy, self.name, holding.held)
        if policy.quotas.disk is not None and "disk" not in policy.waive and policy.workspace is not None:
            raise UnsupportedError(
                "quotas.disk: this workspace is a directory of the host, which has no limit of its own; leave workspace out, "
                "or waive={'disk'}",
                option="quotas.disk",
                backend=self.name,
            )

    @contextlib.contextmanager
    def _blueprint(self, request: CreateRequest, holding: Holding, mappable: Grant | Refused | None) -> Iterator[Blueprint]:
        """With the sandbox's ids, which are locked in here and afterwards by the helper alone."""
        policy = request.policy
        try:
            host_view()
        except OSError as error:  # only the first time: it is remembered
            raise SandboxError(f"the sandbox did not start: the host cannot be looked at: {error}") from error
        workspace, mounts = mounted(policy)
        identity = identify(policy, request.options, mappable)
        profile = request.options.profile
        try:
            yield Blueprint(
                backend=self.name,
                capabilities=replace(CAPABILITIES, quotas=with_groups(CAPABILITIES.quotas, holding.controllers)),
                request=request,
                plan=compile_plan(policy, workspace, mounts, identity.ids, holding.held, profile=profile),
                holding=holding,
                env={**ENVIRONMENT, **policy.env},
                cwd=WORKSPACE,
                workspace=WORKSPACE,
                layers=partial(verified, _expected(policy, holding.held, profile, identity)),
                explain=explain,
                command_owner=identity.ids.command_owner,
                inherited=identity.inherited,
            )
        finally:
            identity.close()


def compile_plan(
    policy: Policy,
    workspace: Source | None,
    mounts: list[Source],
    ids: Ids,
    held: frozenset[str] = frozenset(),
    *,
    profile: ProfileName = "default",
) -> list[Record]:
    """The whole policy as records. ``held``: quotas that a control group holds. ``profile``: of system calls."""
    quotas = policy.quotas
    flags = Mode.NAMESPACES | Mode.LOOPBACK
    flags |= (Mode.SPLIT_UID if ids.split else Mode(0)) | (Mode.OPEN_EARLY if ids.early else Mode(0))
    mode = ModeRecord(
        flags=flags if Layer.KEYRING.word in policy.waive else flags | Mode.KEYRING,
        clone_flags=sum(flag for layer, flag in _NAMESPACES.items() if layer.word not in policy.waive),
        command_uid=COMMAND_UID,
        command_gid=COMMAND_UID,
        pids=quotas.pids or 0,
        memory=0 if "memory" in held else quotas.size("memory") or 0,
        cpu_ns=int((quotas.cpu_time or 0) * 1e9),
    )
    return [
        mode,
        ids.maps,
        outside(),
        *mount_plan(host_view(), workspace, mounts, scratch=_scratch_size(quotas)),
        *_sysctls(),
        *(() if Layer.UTS_NAMESPACE.word in policy.waive else (Hostname("sandbox"),)),
        *limit_records(quotas, hard_open_files=hard_open_files(), held=held),
        *affinity_records(policy, held),
        *landlock_records(writable_paths(workspace, mounts), waived="landlock" in policy.waive),
        Seccomp(_filter(quotas, held, profile)),
    ]


def _filter(quotas: Quotas, held: frozenset[str], profile: ProfileName) -> bytes:
    return compile_filter(machine(), profile=profile, pin_cpus=quotas.cpus is not None and "cpus" not in held)


def _expected(policy: Policy, held: frozenset[str], profile: ProfileName, identity: Identity) -> Expected:
    """From the policy, not from the plan: what became of the plan on its way is what is to be found out."""
    program = _filter(policy.quotas, held, profile)
    ids = OfIds(identity.ids.split, identity.split, identity.distinct)
    return expected(ids, filter=hash_filter(program), profile=profile, waived=policy.waive)


def _scratch_size(quotas: Quotas) -> int | None:
    """The disk quota, and at most half of the memory quota: a full tmpfs leaves room for the command that empties it."""
    memory, disk = quotas.size("memory"), quotas.size("disk")
    return min((size for size in (disk, memory and max(4096, memory // 2)) if size is not None), default=None)
