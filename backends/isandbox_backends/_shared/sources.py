"""Host paths that a caller wants to see inside: checked, and never through a link."""

from __future__ import annotations

import os
import stat

from isandbox._text import plain
from isandbox.errors import ConfigurationError
from isandbox.policy import resolve_source

# Whole trees of the kernel's own; a sandbox has its own.
_KERNEL = ("/proc", "/sys", "/dev")


def real_source(path: str, what: str) -> str:
    """``path`` made absolute. Raises `ConfigurationError` when it is not there, is ``/`` or kernel state, or leads through a
    symbolic link: the message names the real path, and the caller decides whether that is what was meant.
    """
    real = resolve_source(path, what)
    if os.path.abspath(path) != real:
        raise ConfigurationError(f"{what}: {plain(path)} leads through a symbolic link; name {plain(real)}")
    if any(real == tree or real.startswith(tree + "/") for tree in _KERNEL):
        raise ConfigurationError(f"{what}: {plain(real)} is the kernel's own state; the sandbox has its own")
    if stat.S_ISSOCK(os.stat(real).st_mode):
        raise ConfigurationError(f"{what}: {plain(real)} is a socket of the host; code inside could talk to whoever listens")
    return real
