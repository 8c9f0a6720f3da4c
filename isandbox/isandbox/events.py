"""One record for everything a sandbox tells its owner outside a call's own result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

EventKind = Literal["created", "connected", "exec_started", "exec_ended", "transfer", "detached", "closed", "lost"]


@dataclass(frozen=True, slots=True)
class Event:
    """``kind`` says what happened to ``sandbox_id``; ``data`` holds plain values, never an argv, a value of an environment
    variable, a command's output, a file's name or its content.

    ``connected`` and ``detached`` begin and end what a handle on a sandbox that goes on hears.

    ``transfer`` comes from an upload or download, after every 8 MiB or 256 files and at its end: ``direction``, ``files`` and
    ``bytes`` moved so far, ``total_files``, ``total_bytes``, and ``done``.
    """

    kind: EventKind
    sandbox_id: str
    at: float
    """Seconds since the epoch."""
    data: Mapping[str, str | int | float | bool | None] = field(default_factory=lambda: MappingProxyType({}))

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy does not pickle.
        return (Event, (self.kind, self.sandbox_id, self.at, dict(self.data)))


EventSink = Callable[[Event], None]
"""Called in the thread that caused the event; what it raises is logged and goes no further."""
