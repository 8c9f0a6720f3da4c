"""What stands between `FakeSandbox.create` and the factory's checks, and finds fakes again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from isandbox import _registry
from isandbox.backend import Backend, CreateRequest
from isandbox.errors import UnsupportedError
from isandbox.testing.fake_life import FakeRegister

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from isandbox.events import EventSink
    from isandbox.policy import Capabilities
    from isandbox.records import SandboxSummary
    from isandbox.sandbox import ISandbox
    from isandbox.testing.fake import FakeSandbox


def installed_register(name: str) -> FakeRegister | None:
    """Where the fakes are found that are installed under this name, if there are any."""
    backend = _registry.standing_in(name)
    return backend.register if isinstance(backend, FakeBackend) else None


class FakeBackend(Backend):
    """Makes sandboxes of one fake class. It is in no registry until `FakeSandbox.installed` puts it there: nobody gets a fake
    without asking for one.
    """

    name = "fake"

    def __init__(
        self, kind: type[FakeSandbox], files: Mapping[str, str | bytes] | None, register: FakeRegister | None = None
    ) -> None:
        self._kind, self._files = kind, files
        self.register = register or FakeRegister()

    def unavailable(self) -> str | None:
        return None

    def capabilities(self) -> Capabilities:
        return self._kind.capabilities

    async def create(self, request: CreateRequest) -> ISandbox:
        with self.register.lock:
            there = self.register.under_key(request)
            if there is not None and there.origin is not None:
                return there.origin.another(request.on_event, connected=False)
            made = self._kind(self._files, request=request)
            self.register.add(made.life)
        return made

    async def connect(self, id: str, on_event: EventSink | None = None) -> ISandbox:
        origin = self.register.living(id).origin
        if origin is None:
            raise UnsupportedError(
                f"connect: {id} is owned by the process that made it; make it with detached=True",
                option="connect",
                backend=self.name,
            )
        return origin.another(on_event, connected=True)

    def list(self) -> Sequence[SandboxSummary]:
        return [life.summary(os.getpid()) for life in self.register.all()]

    def kill(self, id: str) -> bool:
        life = self.register.find(id)
        return not life.end() and life.finish("it was killed")
