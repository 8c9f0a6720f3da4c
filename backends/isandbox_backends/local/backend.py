"""The `local` backend: the helper as launcher only. The exec contract holds; isolation there is none, and it says so."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from isandbox._text import plain
from isandbox.errors import BackendUnavailableError, ConfigurationError, SandboxError, UnsupportedError
from isandbox.policy import KERNEL, Capabilities, Enforcement, unsupported
from isandbox_backends._shared.helper import helper_missing
from isandbox_backends._shared.holding import Holding, NativeOptions, hold, usable_controllers, with_groups
from isandbox_backends._shared.lifecycle import LIFE_VERBS, NativeBackend
from isandbox_backends._shared.limits import affinity_records, check_cpus, hard_open_files, limit_records
from isandbox_backends._shared.plan import Mode, ModeRecord, Record
from isandbox_backends._shared.scratch import make_scratch, scratch_path
from isandbox_backends._shared.sources import real_source
from isandbox_backends._shared.start import Blueprint, new_id, start_async, start_blocking
from isandbox_backends.local.python_helper import WEAKNESSES, python_helper, python_helper_missing, warn_once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox.backend import CreateRequest
    from isandbox.policy import Policy
    from isandbox.sandbox import ISandbox
    from isandbox.sync.sandbox import ISandbox as BlockingSandbox
    from isandbox_backends._shared.client import HelperStartError
    from isandbox_backends._shared.protocol import Hello

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PLACES = ("home", "tmp", "workspace")
NO_ISOLATION = "no isolation: a command can do whatever the user who runs isandbox can do"


@dataclass(frozen=True, slots=True)
class LocalOptions(NativeOptions):
    """``helper``: the native one where it is installed, else the weaker one in Python (``auto``), or always one of them."""

    helper: Literal["auto", "native", "python"] = "auto"

    def __post_init__(self) -> None:
        NativeOptions.__post_init__(self)
        if self.helper not in ("auto", "native", "python"):
            raise ConfigurationError(f"helper: 'auto', 'native' or 'python', not {self.helper!r}")


class LocalBackend(NativeBackend):
    """A plain subprocess with a private workspace, a scrubbed environment and rlimits.

    Without the native helper it runs with one in Python, and says so in its weaknesses, in ``info.layers`` and in the log.
    """

    name = "local"
    options = LocalOptions

    def unavailable(self) -> str | None:
        return None if helper_missing() is None else python_helper_missing()

    def capabilities(self) -> Capabilities:
        python = helper_missing() is not None
        return self._capabilities(python=python, controllers=frozenset() if python else usable_controllers())

    def _capabilities(self, *, python: bool, controllers: frozenset[str]) -> Capabilities:
        by = ", by psutil" if python else ""
        nowhere = unsupported("use SANDBOX_TYPE=seccomp")
        quotas = {
            "open_files": Enforcement("kernel", told="looked"),
            "file_size": Enforcement("kernel", told="exit"),
            "memory": Enforcement("watched", period=0.05, note=f"memory of the processes that a command started{by}"),
            "cpu_time": Enforcement("watched", period=0.05, note=by.removeprefix(", ")),
            "cpus": Enforcement("kernel", note="affinity, which a command may change again")
            if hasattr(os, "sched_setaffinity")
            else unsupported("leave it out"),
            "output": KERNEL,
            "pids": unsupported("use SANDBOX_TYPE=seccomp: RLIMIT_NPROC would count all of the user's processes"),
            "disk": unsupported("leave it out"),
        }
        return Capabilities(
            isolation="none",
            quotas=with_groups(quotas, controllers),
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
            verbs=frozenset({"make_link"}) if python else LIFE_VERBS | {"attach", "make_link", "terminal"},
            weaknesses=(
                NO_ISOLATION,
                "the network and every file of the user are open to commands",
                "a command can kill the helper and its keepers: the sandbox is lost then, and what it started may live on",
                *(WEAKNESSES if python else ()),
            ),
            protections=frozenset({"descriptors", "environment"}),
        )

    def check(self, policy: Policy, options: LocalOptions) -> None:
        check_cpus(policy, self.name, _hold(policy, options).held)

    def check_request(self, request: CreateRequest) -> None:
        life = {"detached": request.detached, "lifetime": request.lifetime, "idle_timeout": request.idle_timeout}
        for option in (name for name, asked in life.items() if asked and _is_python(request.options)):
            raise UnsupportedError(
                f"{option}: the helper in Python cannot do this; use helper='native'", option=option, backend=self.name
            )

    async def create(self, request: CreateRequest) -> ISandbox:
        return await start_async(self._blueprint(request))

    def create_blocking(self, request: CreateRequest) -> BlockingSandbox:
        return start_blocking(self._blueprint(request))

    def _blueprint(self, request: CreateRequest) -> Blueprint:
        python = _use_python(request.options)
        policy = request.policy
        holding = _hold(policy, request.options)
        plan = compile_plan(policy, holding.held)
        given = policy.workspace
        path = None if given is None else real_source(given.path, "workspace")
        if path is not None and not os.path.isdir(path):
            raise ConfigurationError(f"workspace: {plain(path)} is not a directory")
        helper = python_helper() if python else None
        # A detached one's is made when it is registered: until then nobody would know whose it is.
        own = new_id(self.name)
        base = scratch_path(own) if request.detached else make_scratch(*_PLACES)
        workspace = path or f"{base}/workspace"
        return Blueprint(
            backend=self.name,
            capabilities=self._capabilities(python=python, controllers=holding.controllers),
            request=request,
            plan=plan,
            env={**_environment(base), **policy.env},
            cwd=workspace,
            workspace=workspace,
            layers=partial(_layers, python),
            explain=_explain,
            scratch=(base,),
            made=(*(f"{base}/{name}" for name in _PLACES), base),
            helper=helper,
            holding=holding,
            id=own,
        )


def _hold(policy: Policy, options: LocalOptions) -> Holding:
    use = options.cgroup
    if helper_missing() is not None or options.helper == "python":  # which joins no groups
        if use == "require":
            raise UnsupportedError(
                "cgroup='require': the helper in Python joins no control groups; leave it out",
                option="cgroup",
                backend="local",
            )
        use = "never"
    return hold(replace(policy, waive=policy.waive | {"pids"}), use, "local")  # which the record calls unsupported


def compile_plan(policy: Policy, held: frozenset[str] = frozenset()) -> list[Record]:
    quotas = policy.quotas
    memory = 0 if "memory" in held else quotas.size("memory") or 0
    mode = ModeRecord(flags=Mode(0), memory=memory, cpu_ns=int((quotas.cpu_time or 0) * 1e9))
    return [
        mode,
        *limit_records(quotas, hard_open_files=hard_open_files(), held=held),
        *affinity_records(policy, held),
    ]


def _environment(base: str) -> dict[str, str]:
    return {
        "PATH": _PATH,
        "HOME": f"{base}/home",
        "USER": "user",
        "LOGNAME": "user",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": f"{base}/tmp",  # noqa: S108 - in a directory of our own
    }


def _is_python(options: LocalOptions) -> bool:
    return options.helper == "python" or helper_missing() is not None


def _use_python(options: LocalOptions) -> bool:
    """Which helper to run; the weaker one is logged. Raises `BackendUnavailableError` for one that cannot run."""
    missing = helper_missing()
    if options.helper == "native" and missing is not None:
        raise BackendUnavailableError(f"the local backend's native helper cannot run here: {missing}")
    python = _is_python(options)
    reason = python_helper_missing() if python else None
    if reason is not None:
        raise BackendUnavailableError(f"the local backend's Python helper cannot run here: {reason}")
    if python and missing is not None:
        warn_once()
    return python


def _layers(python: bool, _hello: Hello) -> Mapping[str, str]:
    layers = {"isolation": f"absent ({NO_ISOLATION})"}
    if python:
        layers["helper"] = f"absent ({helper_missing() or 'not chosen'}): a weaker one in Python runs in its place"
    return layers


def _explain(error: HelperStartError) -> SandboxError:
    return SandboxError(f"the sandbox did not start: {error}")
