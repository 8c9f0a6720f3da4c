"""Quotas, capability record, mounts and the frozen `Policy`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from isandbox.policy.capabilities import KERNEL, Capabilities, Enforcement, Isolation, meets, unsupported
from isandbox.policy.mounts import Mount, Workspace, check_path, resolve_source
from isandbox.policy.policy import Policy, as_mounts, as_workspace, check_env
from isandbox.policy.protections import PROTECTIONS, Protection
from isandbox.policy.quotas import Quotas, parse_size

if TYPE_CHECKING:
    from isandbox.policy.explain import Explanation

__all__ = [
    "KERNEL",
    "PROTECTIONS",
    "Capabilities",
    "Enforcement",
    "Explanation",
    "Isolation",
    "Mount",
    "Policy",
    "Protection",
    "Quotas",
    "Workspace",
    "as_mounts",
    "as_workspace",
    "check_env",
    "check_path",
    "meets",
    "parse_size",
    "resolve_source",
    "unsupported",
]


def __getattr__(name: str) -> Any:
    # Not a part of making a sandbox, and so not of what that imports.
    if name == "Explanation":
        from isandbox.policy.explain import Explanation

        return Explanation
    raise AttributeError(f"module 'isandbox.policy' has no attribute {name!r}")
