"""What stands between `FakeSandbox.create` and the factory's checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isandbox.backend import Backend, CreateRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox.policy import Capabilities
    from isandbox.sandbox import ISandbox
    from isandbox.testing.fake import FakeSandbox


class FakeBackend(Backend):
    """Makes sandboxes of one fake class. It is in no registry: nobody gets a fake without asking for one."""

    name = "fake"

    def __init__(self, kind: type[FakeSandbox], files: Mapping[str, str | bytes] | None) -> None:
        self._kind, self._files = kind, files

    def unavailable(self) -> str | None:
        return None

    def capabilities(self) -> Capabilities:
        return self._kind.capabilities

    async def create(self, request: CreateRequest) -> ISandbox:
        return self._kind(self._files, request=request)
