"""What the caller mounts, checked and looked up on the host: a `Policy` to the sources of a mount plan."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from isandbox._text import plain
from isandbox.errors import ConfigurationError, UnsupportedError
from isandbox.policy import check_path
from isandbox_backends._shared.sources import real_source
from isandbox_backends.seccomp.covers import Source
from isandbox_backends.seccomp.hidden import below
from isandbox_backends.seccomp.mounts import WORKSPACE
from isandbox_backends.seccomp.session import hidden_below, hide_state, own_homes

if TYPE_CHECKING:
    from isandbox.policy import Policy, Workspace


def mounted(policy: Policy) -> tuple[Source | None, list[Source]]:
    """The workspace, ``None`` for one in scratch space, and the mounts; each with what it must not show.

    Raises `ConfigurationError` for what is not there, leads through a link, or may not be mounted in that way.
    """
    mounts = [_source(mount.source, "mount source", mount.target, mount.mode == "rw") for mount in policy.mounts]
    workspace = None if policy.workspace is None else _workspace(policy.workspace)
    sources = [source for source in (workspace, *mounts) if source is not None]
    if sources:
        hide_state([source.path for source in sources])
    directories = [source.path for source in sources if source.is_dir]
    if not directories:  # a sandbox without them pays nothing
        return workspace, mounts
    hidden = hidden_below(directories)
    own = workspace and replace(workspace, hidden=hidden[workspace.path])
    # What is denied is so in each mount that shows it; there it is looked for like what is hidden, for a mount may stand between.
    denied = [] if workspace is None else sorted(workspace.path + place.removeprefix(WORKSPACE) for place in workspace.deny)
    return own, [replace(source, hidden=(*hidden.get(source.path, ()), *below(source.path, denied))) for source in mounts]


def _workspace(workspace: Workspace) -> Source:
    source = _source(workspace.path, "workspace", WORKSPACE, workspace.mode == "rw")
    if not source.is_dir:
        raise ConfigurationError(f"workspace: {plain(source.path)} is not a directory")
    return replace(source, deny=tuple(f"{WORKSPACE}/{name}" for name in _denied(source.path, workspace.deny)))


def _source(path: str, what: str, target: str, writable: bool) -> Source:
    real = real_source(path, what)
    if writable:
        _check_writable(real, what, own_homes())
    # Root's sandboxes have ids of their own: what is mounted must appear as theirs. A user's sandbox is the user.
    return Source(real, target, writable=writable, is_dir=os.path.isdir(real), owner_is_user=os.geteuid() == 0)


def _check_writable(real: str, what: str, homes: Iterable[str]) -> None:
    """Raises `ConfigurationError` for a home directory and what one is in: what the user's shell, desktop and tools read
    when they start is there, and code inside could change it.
    """
    for home in homes:
        if home == real or home.startswith(f"{real}/"):
            which = "your home directory" if home == real else f"above your home directory {home}"
            raise ConfigurationError(
                f"{what}: {plain(real)} is {which}; code inside could change what your programs run when they start. "
                "Name a directory in it, or use mode='ro'"
            )


def _denied(workspace: str, names: Iterable[str]) -> tuple[str, ...]:
    """``names`` as relative plain paths of what is there. Raises `UnsupportedError` for a pattern, `ConfigurationError` for
    what is not below the workspace, not there, or a link.
    """
    found = []
    for name in names:
        path = os.path.normpath(check_path(name, "workspace deny"))
        if set(name) & set("*?["):
            raise UnsupportedError(
                f"workspace deny: {plain(name)} is a pattern; this backend takes paths of files and directories that exist",
                option="workspace.deny",
                backend="seccomp",
            )
        if path.startswith(("/", "..")) or path == ".":
            raise ConfigurationError(
                f"workspace deny: {plain(name)} is not a place below the workspace; write it relative to it"
            )
        _check_denied(f"{workspace}/{path}", name)
        found.append(path)
    return tuple(found)


def _check_denied(place: str, name: str) -> None:
    try:
        os.lstat(place)
        real = os.path.realpath(place, strict=True)
    except OSError as error:
        raise ConfigurationError(
            f"workspace deny: {plain(name)} does not exist or cannot be looked at ({error.strerror}); "
            "what is not there cannot be kept from being made"
        ) from error
    if real != place:
        raise ConfigurationError(
            f"workspace deny: {plain(name)} leads through a symbolic link to {plain(real)}; name what it leads to"
        )
