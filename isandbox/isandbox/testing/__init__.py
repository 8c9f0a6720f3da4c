"""For people who write backends and for people who test agents. `SandboxContract` needs pytest and pytest-asyncio."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isandbox.testing.contract import Contract as Contract
    from isandbox.testing.contract import DetachedContract as DetachedContract
    from isandbox.testing.contract import Gap as Gap
    from isandbox.testing.contract import SandboxContract as SandboxContract
    from isandbox.testing.contract import ThroughSync as ThroughSync
    from isandbox.testing.fake import FakeSandbox as FakeSandbox

__all__ = ["Contract", "DetachedContract", "FakeSandbox", "Gap", "SandboxContract", "ThroughSync"]
_HOME = {"FakeSandbox": "fake", **{name: "contract" for name in __all__ if name != "FakeSandbox"}}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = f"{__name__}.{_HOME[name]}"
    if _HOME[name] == "contract" and home not in sys.modules:
        import pytest

        pytest.register_assert_rewrite(home)  # before it is imported: a broken promise then shows its values
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
