"""Control groups: one interface over cgroup v1, cgroup v2 and none at all."""

from isandbox_backends._shared.cgroups.group import NO_LIMITS, CommandGroup, Limits, NotHeldError, SandboxGroup, make_group
from isandbox_backends._shared.cgroups.place import Place, Unavailable, find_place

__all__ = [
    "NO_LIMITS",
    "CommandGroup",
    "Limits",
    "NotHeldError",
    "Place",
    "SandboxGroup",
    "Unavailable",
    "find_place",
    "make_group",
]
