"""Blocking `connect`, `list_sandboxes`, `kill_sandbox` and `reap`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isandbox._finding import backend_for, chosen, listed, reaped
from isandbox._request import check_sink
from isandbox.sync._blocking import refuse_in_loop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox.events import EventSink
    from isandbox.records import ReapReport, SandboxSummary
    from isandbox.sync.sandbox import ISandbox


def connect(id: str, *, on_event: EventSink | None = None) -> ISandbox:
    """A handle on a detached sandbox; use it with ``with``, which lets go on leaving. As `isandbox.connect`."""
    refuse_in_loop()
    backend = backend_for(id)
    check_sink(on_event)
    return backend.connect_blocking(id, on_event)


def list_sandboxes(type: str | None = None, labels: Mapping[str, str] | None = None) -> list[SandboxSummary]:
    """Your sandboxes, oldest first. As `isandbox.list_sandboxes`."""
    refuse_in_loop()
    return listed(chosen(type), labels)


def kill_sandbox(id: str) -> bool:
    """End a sandbox, whoever uses it; ``False`` when it had ended. As `isandbox.kill_sandbox`."""
    refuse_in_loop()
    return backend_for(id).kill(id)


def reap() -> ReapReport:
    """Remove what dead owners and ended sandboxes left on this machine. As `isandbox.reap`."""
    refuse_in_loop()
    return reaped()
