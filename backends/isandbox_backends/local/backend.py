"""The `local` backend: the helper as launcher only. The exec contract holds; isolation there is none, and it says so."""

from __future__ import annotations

import os
import resource
import sys
from typing import TYPE_CHECKING

from isandbox.backend import Backend
from isandbox.errors import ConfigurationError, SandboxError
from isandbox.policy import KERNEL, Capabilities, Enforcement, unsupported
from isandbox_backends._shared.helper import helper_missing
from isandbox_backends._shared.limits import affinity_records, limit_records
from isandbox_backends._shared.plan import Mode, ModeRecord, Record
from isandbox_backends._shared.scratch import make_scratch
from isandbox_backends._shared.sources import real_source
from isandbox_backends._shared.start import Blueprint, start_async, start_blocking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox.backend import CreateRequest
    from isandbox.policy import Policy
    from isandbox.sandbox import ISandbox
    from isandbox.sync.sandbox import ISandbox as BlockingSandbox
    from isandbox_backends._shared.client import HelperStartError
    from isandbox_backends._shared.protocol import Hello

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NO_ISOLATION = "no isolation: a command can do whatever the user who runs isandbox can do"


class LocalBackend(Backend):
    """A plain subprocess with a private workspace, a scrubbed environment and rlimits."""

    name = "local"

    def unavailable(self) -> str | None:
        return helper_missing()

    def capabilities(self) -> Capabilities:
        nowhere = unsupported("use SANDBOX_TYPE=seccomp")
        return Capabilities(
            isolation="none",
            quotas={
                "open_files": KERNEL,
                "file_size": KERNEL,
                "memory": Enforcement("watched", period=0.05, note="private memory of the processes that a command started"),
                "cpu_time": Enforcement("watched", period=0.05),
                "cpus": Enforcement("kernel", note="affinity"),
                "output": KERNEL,
                "pids": unsupported("use SANDBOX_TYPE=seccomp: RLIMIT_NPROC would count all of the user's processes"),
                "disk": unsupported("leave it out"),
            },
            policies={
                "workspace.rw": KERNEL,
                "workspace.ro": nowhere,
                "workspace.overlay": nowhere,
                "workspace.copy": nowhere,
                "workspace.deny": nowhere,
                "mounts": nowhere,
                "network.none": nowhere,
                "network.hosts": nowhere,
            },
            weaknesses=(
                NO_ISOLATION,
                "the network and every file of the user are open to commands",
                "a command can kill the helper; what it started in the background then lives on",
            ),
        )

    async def create(self, request: CreateRequest) -> ISandbox:
        return await start_async(self._blueprint(request))

    def create_blocking(self, request: CreateRequest) -> BlockingSandbox:
        return start_blocking(self._blueprint(request))

    def _blueprint(self, request: CreateRequest) -> Blueprint:
        policy = request.policy
        plan = compile_plan(policy)
        given = policy.workspace
        path = None if given is None else real_source(given.path, "workspace")
        if path is not None and not os.path.isdir(path):
            raise ConfigurationError(f"workspace: {path} is not a directory")
        base = make_scratch()
        for name in ("home", "tmp", "workspace"):
            os.mkdir(f"{base}/{name}", 0o700)
        workspace = path or f"{base}/workspace"
        return Blueprint(
            backend=self.name,
            capabilities=self.capabilities(),
            request=request,
            plan=plan,
            env={**_environment(base, workspace), **policy.env},
            cwd=workspace,
            workspace=workspace,
            layers=_layers,
            explain=_explain,
            scratch=(base,),
        )


def compile_plan(policy: Policy) -> list[Record]:
    quotas = policy.quotas
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    mode = ModeRecord(flags=Mode(0), memory=quotas.size("memory") or 0, cpu_ns=int((quotas.cpu_time or 0) * 1e9))
    return [
        mode,
        *limit_records(quotas, hard_open_files=sys.maxsize if hard == resource.RLIM_INFINITY else hard),
        *affinity_records(quotas, "local"),
    ]


def _environment(base: str, workspace: str) -> dict[str, str]:
    return {
        "PATH": _PATH,
        "HOME": f"{base}/home",
        "USER": "user",
        "LOGNAME": "user",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": f"{base}/tmp",  # noqa: S108 - in a directory of our own
        "PWD": workspace,
    }


def _layers(_: Hello) -> Mapping[str, str]:
    return {"isolation": f"absent ({NO_ISOLATION})"}


def _explain(error: HelperStartError) -> SandboxError:
    return SandboxError(f"the sandbox did not start: {error}")
