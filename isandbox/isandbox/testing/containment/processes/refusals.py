"""What a backend does not have it refuses: nothing is run with less than was asked for."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from isandbox.errors import SandboxError, UnsupportedError
from isandbox.policy import Mount, Quotas, Workspace
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import shown
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# As much as any backend that has the quota can give.
_QUOTAS = {
    "cpus": Quotas(cpus=1),
    "cpu_time": Quotas(cpu_time=5),
    "memory": Quotas(memory="256MiB"),
    "disk": Quotas(disk="64MiB"),
    "pids": Quotas(pids=64),
    "open_files": Quotas(open_files=128),
    "file_size": Quotas(file_size="1MiB"),
    "output": Quotas(output="1MiB"),
}


@probe("B27", "What is asked for is enforced or refused, never left out", claim="interface")
async def asked_for(arena: Arena) -> Verdict:
    """Each quota, policy and isolation that the backend's record does not have raises `UnsupportedError`, and no command runs;
    what it has is accepted.
    """
    wrong, refused = [], 0
    for what, options, supported in _asked(arena):
        said = await _said(arena, options)
        if said not in (("ran",) if supported else ("refused",)):
            wrong.append(f"{what}: {said}")
        refused += not supported
    if wrong:
        return Verdict("LEAK", detail=shown(wrong))
    if await _said(arena, {}) != "ran":
        return Verdict("VACUOUS", detail="not even a plain sandbox runs a command")
    return Verdict("BLOCKED", "refused before it starts", f"{refused} refused")


def _asked(arena: Arena) -> list[tuple[str, dict[str, Any], bool]]:
    """``(name, options, whether the record has it)``. What needs a network or a disk of its own to be accepted is tried only
    where it must be refused.
    """
    record = arena.target.capabilities
    place = str(arena.directory())
    policies: dict[str, dict[str, Any]] = {
        "workspace.ro": {"workspace": Workspace(place, mode="ro")},
        "workspace.overlay": {"workspace": Workspace(place, mode="overlay")},
        "workspace.copy": {"workspace": Workspace(place, mode="copy")},
        "workspace.deny": {"workspace": Workspace(place, deny=("**/.env",))},
        "mounts": {"mounts": [Mount(place, "/mnt/probe", "ro")]},
        "network.hosts": {"network": ["host.invalid"]},
    }
    asked: list[tuple[str, dict[str, Any], bool]] = [
        (name, {"quotas": quotas}, record.quota(name).kind != "unsupported") for name, quotas in _QUOTAS.items()
    ]
    asked += [(name, given, False) for name, given in policies.items() if record.policy(name).kind == "unsupported"]
    if record.isolation != "vm":
        asked.append(("min_isolation", {"min_isolation": "vm"}, False))
    return asked


async def _said(arena: Arena, options: dict[str, Any]) -> str:
    try:
        async with AsyncExitStack() as stack:
            box = await stack.enter_async_context(arena.target.create(**options))
            result = await box.exec("echo ran", timeout=20)
    except UnsupportedError:
        return "refused"
    except SandboxError as error:
        return f"{type(error).__name__}: {error}"
    return "ran" if result.stdout == "ran\n" else f"exit {result.exit_code}"
