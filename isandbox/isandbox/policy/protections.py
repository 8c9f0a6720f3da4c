"""What code inside is kept from: the words in which a backend claims it, and the containment probes test it."""

from __future__ import annotations

from typing import Literal, get_args

Protection = Literal[
    "files",
    "neighbours",
    "devices",
    "kernel",
    "processes",
    "namespaces",
    "privileges",
    "ipc",
    "sockets",
    "descriptors",
    "environment",
    "terminal",
    "lifetime",
]
"""``files``: of the host, beyond what is mounted, cannot be read, changed or reached, and read-only stays so.
``neighbours``: other sandboxes' files and processes. ``devices``: none but the harmless ones. ``kernel``: control files,
information about the host and dangerous calls. ``processes`` of the host are not seen, signalled, traced or limited.
``namespaces``: none can be made or entered. ``privileges``: none can be gained, nor left in a file for later. ``ipc``: shared
memory, queues, keyrings and abstract sockets. ``sockets``: those of engines, agents and sessions in the file system.
``descriptors`` and ``environment`` of the host process are not inherited. ``terminal``: the caller's takes no input from inside.
``lifetime``: nothing that a command started outlives it, its sandbox or the host process."""

PROTECTIONS: frozenset[str] = frozenset(get_args(Protection))
