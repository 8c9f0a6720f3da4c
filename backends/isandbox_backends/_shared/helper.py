"""Where the native helper is."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

_BINARY = Path(__file__).resolve().parent.parent / "_bin" / "isandbox-helper"
ARCHITECTURES = ("x86_64", "aarch64")


@dataclass(frozen=True, slots=True)
class HelperProgram:
    """A program that speaks the helper protocol, and how it is executed."""

    path: str
    argv: tuple[str, ...] = ("isandbox-helper",)
    env: Mapping[str, str] = field(default_factory=dict)


def machine() -> str:
    """The architecture in the kernel's words."""
    return {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())


@lru_cache(maxsize=1)
def helper_path() -> str | None:
    """The helper that was built with this installation, or ``None``."""
    return str(_BINARY) if os.access(_BINARY, os.X_OK) else None


def helper_missing() -> str | None:
    """Why there is no helper, with the command that fixes it; ``None`` when there is one."""
    if sys.platform != "linux":
        return f"it needs Linux; this is {sys.platform}"
    if machine() not in ARCHITECTURES:
        return f"it is built for {' and '.join(ARCHITECTURES)}; this is {machine()}"
    if helper_path() is None and _BINARY.is_file():
        return (
            f"the native helper cannot be executed where it is. Its file system is mounted noexec, or it is not for this user: {_BINARY}. "
            "Install isandbox elsewhere, or: mount -o remount,exec (isandbox doctor says which)"
        )
    if helper_path() is None:
        return (
            "the native helper was not built: there was no C compiler at installation. "
            "Install one (apt-get install gcc libc6-dev) and reinstall: pip install --force-reinstall --no-deps isandbox"
        )
    return None
