"""For people who write backends and for people who test agents. `SandboxContract` needs pytest and pytest-asyncio."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isandbox.testing.contract import SandboxContract as SandboxContract
    from isandbox.testing.fake import FakeSandbox as FakeSandbox

__all__ = ["FakeSandbox", "SandboxContract"]
_HOME = {"FakeSandbox": "fake", "SandboxContract": "contract"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
