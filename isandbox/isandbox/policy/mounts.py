"""Workspace and mounts: which host directories a sandbox sees, and how."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from isandbox._text import encoded, plain, shown
from isandbox.errors import ConfigurationError

MountMode = Literal["ro", "rw"]
WorkspaceMode = Literal["rw", "ro", "overlay", "copy"]

# The kernel's PATH_MAX, its terminating NUL included.
PATH_MAX = 4096


def check_path(path: str | os.PathLike[str], what: str) -> str:
    """A path as text that the kernel will take: not empty, no NUL, below 4,096 bytes."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise ConfigurationError(f"{what}: a text path, not {type(text).__name__}")
    if not text:
        raise ConfigurationError(f"{what}: an empty path names nothing")
    if "\0" in text:
        raise ConfigurationError(f"{what}: a path cannot hold a NUL character")
    length = len(encoded(text, what))
    if length >= PATH_MAX:
        raise ConfigurationError(f"{what}: a path of {length} bytes is over the kernel's limit of {PATH_MAX - 1}")
    return text


def check_list(values: object, what: str, of: str) -> tuple[Any, ...]:
    """The members of a list that a caller wrote. Raises `ConfigurationError` for one text, which is a list of letters to Python,
    and for what has no members.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{what}: a list of {of}, not {shown(values)}")
    return tuple(values)


def check_texts(values: object, what: str, of: str) -> tuple[str, ...]:
    """The same for texts."""
    given = check_list(values, what, of)
    for value in given:
        if not isinstance(value, str):
            raise ConfigurationError(f"{what}: a list of {of}; {shown(value)} is no text")
    return given


def resolve_source(path: str | os.PathLike[str], what: str) -> str:
    """The real path of a host directory or file, all links resolved. Raises `ConfigurationError` when it is not there."""
    text = check_path(path, what)
    try:
        real = Path(text).resolve(strict=True)
    except FileNotFoundError as error:
        raise ConfigurationError(f"{what}: {plain(text)} does not exist") from error
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(f"{what}: {plain(text)} cannot be used: {error}") from error
    if str(real) == "/":
        raise ConfigurationError(f"{what}: the whole file system is not a mount; name the directory that is needed")
    return str(real)


@dataclass(frozen=True, slots=True)
class Mount:
    """A host file or directory, visible at ``target`` inside. Read-only unless ``mode="rw"``.

    ``source`` is looked up when the sandbox is created. A path that leads through a symbolic link is refused; the message has the
    real one.
    ``target`` is absolute and normal (no ``..``, no ``//``).

    A backend that isolates hides well-known credentials and sockets below a directory that is mounted. A mount of such a
    place itself shows it. It does not take a home directory, or what one is in, as ``"rw"``.
    """

    source: str
    target: str
    mode: MountMode = "ro"

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", check_path(self.source, "mount source"))
        target = check_path(self.target, "mount target")
        object.__setattr__(self, "target", target)
        if self.mode not in ("ro", "rw"):
            raise ConfigurationError(f"mount mode: 'ro' or 'rw', not {shown(self.mode)}")
        # POSIX lets normpath keep exactly two slashes at the front.
        if not target.startswith("/") or target.startswith("//") or target == "/" or os.path.normpath(target) != target:
            raise ConfigurationError(f"mount target: an absolute path below /, without '..' and '//', not {target!r}")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The directory that commands work in.

    ``mode``: ``"rw"`` writes through to the host, ``"ro"`` forbids writes, ``"copy"`` gives the sandbox a private copy,
    ``"overlay"`` a copy-on-write view. What a backend cannot do it refuses.
    ``deny``: places, relative to ``path``, that commands neither see nor change, by a mount of the same tree neither; a mount of
    such a place itself shows it. What a backend takes for one, a pattern or a
    path that exists, is in its capability record (``workspace.deny``); the rest is refused.
    """

    path: str
    mode: WorkspaceMode = "rw"
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", check_path(self.path, "workspace"))
        if self.mode not in ("rw", "ro", "overlay", "copy"):
            raise ConfigurationError(f"workspace mode: one of rw, ro, overlay, copy, not {shown(self.mode)}")
        object.__setattr__(self, "deny", check_texts(self.deny, "workspace deny", "patterns"))
