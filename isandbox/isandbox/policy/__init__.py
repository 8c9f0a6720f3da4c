"""Quotas, capability record, mounts and the frozen `Policy`."""

from isandbox.policy.capabilities import KERNEL, Capabilities, Enforcement, Isolation, meets, unsupported
from isandbox.policy.mounts import Mount, Workspace, check_path, resolve_source
from isandbox.policy.policy import Policy, as_mounts, as_workspace, check_env
from isandbox.policy.protections import PROTECTIONS, Protection
from isandbox.policy.quotas import Quotas, parse_size

__all__ = [
    "KERNEL",
    "PROTECTIONS",
    "Capabilities",
    "Enforcement",
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
