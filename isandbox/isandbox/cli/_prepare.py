"""From what the user asked for to what the factory is given. Nothing is started here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from isandbox._registry import load_backend
from isandbox._settings import default_type, read_settings
from isandbox._text import plain
from isandbox.cli.toolchain import Toolchain, find_toolchain, hidden_program, on_host_path, within
from isandbox.errors import ConfigurationError
from isandbox.policy import Mount, Policy, Quotas, Workspace, resolve_source

if TYPE_CHECKING:
    from isandbox.cli._host import Host
    from isandbox.cli._options import RunOptions
    from isandbox.policy import Isolation

# What a backend with a mount view of its own calls the workspace, and where it looks for programs.
WORKSPACE_INSIDE = "/workspace"
_NOWHERE = f"{os.devnull}/none"  # below a device: no program of the host is there
PATH_INSIDE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Prepared:
    """``sandbox``: options of `create_sandbox`. ``hidden``: what the command needs and the sandbox will not show."""

    type: str
    argv: tuple[str, ...]
    sandbox: Mapping[str, Any] = field(repr=False)
    timeout: float | None = None
    memory: int | None = None
    hidden: str | None = None


def prepare(options: RunOptions) -> Prepared:
    """Raises `ConfigurationError`, also for a workspace that would show a home directory, and `BackendUnavailableError`."""
    name = options.type or default_type()
    if options.policy is not None:
        return _by_policy(options, options.policy, name)
    isolation = load_backend(name).capabilities().isolation
    workspace = None if options.workspace is None else workspace_path(options.workspace, options.host)
    quotas = _quotas(options)
    mounts = [Mount(source, target, "rw" if mode == "rw" else "ro") for source, target, mode in options.mounts]
    toolchain = _toolchain(options, isolation, workspace or _NOWHERE)
    env = dict(options.env)
    if toolchain.path and "PATH" not in env:
        env["PATH"] = ":".join([*toolchain.path, PATH_INSIDE])
    return Prepared(
        type=name,
        argv=(toolchain.argv0, *options.argv[1:]) if options.argv else (),
        sandbox={
            "workspace": workspace and Workspace(workspace, "rw" if options.workspace_mode == "rw" else "ro"),
            "mounts": [*mounts, *beside(toolchain.mounts, mounts)],
            "env": env,
            "quotas": quotas,
            "waive": options.waive,
        },
        timeout=options.timeout,
        memory=_memory(quotas),
        hidden=toolchain.hidden,
    )


def _quotas(options: RunOptions) -> Quotas:
    """A default is not asked for, so that a backend without that quota does not refuse."""
    asked = {name: getattr(options, name) for name in ("cpus", "memory", "pids", "disk")}
    return Quotas(**{name: value for name, value in asked.items() if value is not None})


def _toolchain(options: RunOptions, isolation: Isolation, workspace: str) -> Toolchain:
    """By what commands see: the host's programs and a workspace (os), the host (none), or a world of its own."""
    if not options.argv:  # a sandbox for commands to come
        return Toolchain("")
    argv0, host = options.argv[0], options.host
    if isolation == "none" and options.toolchain:
        return on_host_path(argv0, host, workspace)
    if isolation != "os":
        return Toolchain(argv0)
    if options.toolchain:
        return find_toolchain(argv0, host, workspace, WORKSPACE_INSIDE)
    return Toolchain(argv0, hidden=hidden_program(argv0, host, workspace, WORKSPACE_INSIDE))


def _by_policy(options: RunOptions, path: str, name: str) -> Prepared:
    """The file says what the command sees: no current directory and no toolchain is added to it. Variables are, by ``--env``."""
    policy = Policy.load(path)
    if both := sorted(policy.env.keys() & options.env.keys()):
        raise ConfigurationError(f"--env {plain(both[0])}: {plain(path)} sets it too; leave it out of one of them")
    if policy.workspace is not None:
        policy = replace(policy, workspace=replace(policy.workspace, path=workspace_path(policy.workspace.path, options.host)))
    return Prepared(
        type=name,
        argv=options.argv,
        sandbox={"policy": replace(policy, env={**policy.env, **options.env})},
        timeout=options.timeout,
        memory=policy.quotas.size("memory"),
    )


def _memory(quotas: Quotas) -> int | None:
    """The quota that will hold, for the message about it: the user's settings may have one."""
    settings = read_settings()
    if settings.values:
        from isandbox._settings.apply import with_quotas

        quotas, _ = with_quotas(settings, quotas)
    return quotas.size("memory")


def workspace_path(path: str, host: Host) -> str:
    """The real path of the workspace. Raises `ConfigurationError` for ``/``, a home directory and what a home is in."""
    try:
        real = resolve_source(path, "workspace")
    except ConfigurationError as error:
        if os.path.realpath(path) != "/":
            raise
        raise ConfigurationError(f"workspace: / is the whole file system; {_INSTEAD}") from error
    for home in host.homes:
        if within(home, real):
            what = "your home directory" if home == real else f"above your home directory {home}"
            raise ConfigurationError(f"workspace: {plain(real)} is {what}, which code inside could then read; {_INSTEAD}")
    return real


_INSTEAD = "name a project directory with -w, or cd into one; -w none is an empty one"


def beside(found: tuple[Mount, ...], asked: list[Mount]) -> list[Mount]:
    """Those of the toolchain's mounts that the user's own leave room for: who names a place decides what is there."""
    return [mount for mount in found if not any(within(mount.target, own.target) for own in asked)]
