"""Whose a group is, by its name; and removing those whose owner has died without doing so."""

from __future__ import annotations

import contextlib
import re
import secrets

from isandbox._state.owner import PROC, Processes, current_process, parse_process, process_fate
from isandbox_backends._shared.cgroups.fs import CgroupFs

_NAME = re.compile(r"isandbox-([0-9]+-[0-9]+-[0-9]+)-[0-9a-f]{12}", re.ASCII)


def new_name() -> str:
    """A name for a group that ends with this process."""
    return f"isandbox-{current_process()}-{secrets.token_hex(6)}"


def dead_groups(fs: CgroupFs, parent: str, processes: Processes = PROC) -> list[str]:
    """Paths of the groups in ``parent`` whose owner is dead. Never raises `OSError`."""
    with contextlib.suppress(OSError):
        return [f"{parent}/{name}" for name in fs.list(parent) if _is_dead(name, processes)]
    return []


def remove_dead(fs: CgroupFs, parent: str, processes: Processes = PROC) -> tuple[str, ...]:
    """Remove the groups in ``parent`` whose owner is dead; one in which something still runs stays. Never raises `OSError`.

    Returns the paths of those that are gone.
    """
    removed = []
    for group in dead_groups(fs, parent, processes):
        with contextlib.suppress(OSError):
            for inner in fs.list(group):
                with contextlib.suppress(FileNotFoundError):  # by another process that cleans up
                    fs.remove(f"{group}/{inner}")
            fs.remove(group)
            removed.append(group)
    return tuple(removed)


def _is_dead(name: str, processes: Processes) -> bool:
    match = _NAME.fullmatch(name)
    owner = None if match is None else parse_process(match[1])
    return owner is not None and process_fate(owner, processes) == "dead"
