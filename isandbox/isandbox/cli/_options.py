"""From texts on the command line to one record. Syntax is click's business (exit code 2), meaning is the core's (125)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from isandbox.cli._host import Host, read_host

if TYPE_CHECKING:
    from collections.abc import Sequence


NO_DIRECTORY = "none"
"""As a workspace: no directory of the host. One of this name is written ``./none``."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Everything of one ``isandbox run``, split into its parts and not yet checked. Host paths are absolute."""

    argv: tuple[str, ...]
    host: Host
    workspace: str | None
    """``None``: an empty one, which goes with the sandbox."""
    workspace_mode: str = "ro"
    mounts: tuple[tuple[str, str, str], ...] = ()
    """Source, target, mode."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    type: str | None = None
    cpus: float | None = None
    memory: str | None = None
    pids: int | None = None
    disk: str | None = None
    timeout: float | None = None
    waive: tuple[str, ...] = ()
    policy: str | None = None
    """A file that says everything that the other options would; only ``env`` goes with it."""
    toolchain: bool = True
    json: bool = False
    raw: bool = False


def parse_options(
    *,
    command: Sequence[str],
    mounts: Sequence[str],
    env: Sequence[str],
    workspace: str | None,
    type_: str | None,
    toolchain: str,
    json_: bool,
    policy: str | None = None,
    **plain: Any,
) -> RunOptions:
    """Raises `click.UsageError` for what is not of the documented form, and for ``--policy`` beside what it replaces."""
    if policy is not None:
        given = {
            "-w": workspace,
            "--mount": mounts,
            **{f"--{name}": plain.get(name) for name in ("cpus", "memory", "pids", "disk", "waive")},
        }
        check_alone([name for name, value in given.items() if value not in (None, (), [])])
    try:
        host = read_host()
    except FileNotFoundError as error:
        raise click.UsageError("the current directory does not exist any more") from error
    directory, mode = split_workspace(workspace or ".")
    own = workspace == NO_DIRECTORY
    return RunOptions(
        argv=tuple(command),
        host=host,
        workspace=None if own else os.path.join(host.cwd, directory),
        workspace_mode=mode,
        mounts=tuple((os.path.join(host.cwd, source), target, m) for source, target, m in map(split_mount, mounts)),
        env=dict(split_env(item, host.env) for item in env),
        type=type_,
        toolchain=toolchain == "auto",
        json=json_,
        policy=None if policy is None else os.path.join(host.cwd, policy),
        **plain,
    )


def check_alone(beside: Sequence[str]) -> None:
    """Two sources for one thing are refused, as `create_sandbox` does."""
    if beside:
        raise click.UsageError(f"--policy is the whole policy; leave out {', '.join(beside)}, or write it into the file")


def split_mount(text: str) -> tuple[str, str, str]:
    """``SRC:TARGET[:ro|rw]``."""
    parts = text.split(":")
    if len(parts) == 2:
        parts.append("ro")
    if len(parts) != 3 or not parts[0] or not parts[1] or parts[2] not in ("ro", "rw"):
        raise click.BadParameter(f"{text!r} is not SRC:TARGET[:ro|rw]", param_hint="--mount")
    return parts[0], parts[1], parts[2]


def split_workspace(text: str) -> tuple[str, str]:
    """``DIR[:ro|rw]``; another colon belongs to the directory."""
    directory, colon, mode = text.rpartition(":")
    if colon and mode in ("ro", "rw"):
        if directory == NO_DIRECTORY:
            raise click.BadParameter(
                f"{text!r}: {NO_DIRECTORY} is an empty workspace, which can be written; the directory is ./{text}",
                param_hint="-w",
            )
        if not directory:
            raise click.BadParameter(f"{text!r} names no directory", param_hint="-w")
        return directory, mode
    return text, "ro"


def split_env(text: str, host_env: Mapping[str, str]) -> tuple[str, str]:
    """``NAME=VALUE``, or ``NAME`` for the host's value. The value never stands in a message."""
    name, equals, value = text.partition("=")
    if not name:
        raise click.BadParameter("a variable needs a name: NAME=VALUE or NAME", param_hint="--env")
    if equals:
        return name, value
    if name not in host_env:
        raise click.BadParameter(f"{name} is not set here, so there is nothing to copy; give NAME=VALUE", param_hint="--env")
    return name, host_env[name]


def split_labels(texts: Sequence[str]) -> dict[str, str]:
    """``K=V`` each."""
    labels = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not of the form K=V", param_hint="--label")
        labels[name] = value
    return labels
