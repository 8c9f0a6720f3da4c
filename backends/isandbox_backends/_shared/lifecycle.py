"""What every native backend does with sandboxes that are there already. The modules that do it are loaded when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isandbox.backend import Backend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from isandbox.events import EventSink
    from isandbox.records import ReapReport, SandboxSummary
    from isandbox.sandbox import ISandbox
    from isandbox.sync.sandbox import ISandbox as BlockingSandbox

LIFE_VERBS = frozenset({"detach", "lifetime", "renew"})


class NativeBackend(Backend):
    """A backend whose sandboxes are processes of the native helper on this machine."""

    async def connect(self, id: str, on_event: EventSink | None = None) -> ISandbox:
        from isandbox_backends._shared.detached.connect import connect_async

        return await connect_async(self.name, id, on_event)

    def connect_blocking(self, id: str, on_event: EventSink | None = None) -> BlockingSandbox:
        from isandbox_backends._shared.detached.connect import connect_blocking

        return connect_blocking(self.name, id, on_event)

    def list(self) -> Sequence[SandboxSummary]:
        from isandbox_backends._shared.detached.finding import list_sandboxes

        return list_sandboxes(self.name)

    def kill(self, id: str) -> bool:
        from isandbox_backends._shared.detached.finding import kill_sandbox

        return kill_sandbox(self.name, id)

    def reap(self) -> ReapReport:
        from isandbox_backends._shared.detached.reaping import reap

        return reap(self.name)
