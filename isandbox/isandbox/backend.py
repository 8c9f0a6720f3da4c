"""What a backend gives the factory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox.events import EventSink
    from isandbox.policy import Capabilities, Policy
    from isandbox.sandbox import ISandbox
    from isandbox.sync.sandbox import ISandbox as BlockingSandbox

START_TIMEOUT_DEFAULT = 60.0


@dataclass(frozen=True, slots=True)
class NoOptions:
    """A backend without options of its own."""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """One checked request for a sandbox. A frozen record so that fields can be added without breaking a backend."""

    policy: Policy
    options: Any = NoOptions()
    start_timeout: float = START_TIMEOUT_DEFAULT
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    on_event: EventSink | None = None


class Backend(ABC):
    """One kind of sandbox. A subclass takes no arguments and costs nothing to make.

    ``options`` is the frozen dataclass of the backend's own options; the factory builds it and refuses unknown keys.
    """

    name: ClassVar[str]
    options: ClassVar[type] = NoOptions
    waivable: ClassVar[frozenset[str]] = frozenset()
    """Mechanisms that ``waive=`` may name, beside the quotas and policies of the capability record."""

    @abstractmethod
    def unavailable(self) -> str | None:
        """Why this backend cannot run here, with the command that fixes it; ``None`` when it can."""

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What it enforces on this machine."""

    def check(self, policy: Policy, options: Any) -> None:
        """Refuse what the capability record cannot say alone: a quota that holds only together with something else.
        ``options``: the record of the backend's own.

        Called with the other checks, before anything is made. Raises `UnsupportedError` or `ConfigurationError`.
        """

    @abstractmethod
    async def create(self, request: CreateRequest) -> ISandbox:
        """Make a sandbox, or raise and leave nothing behind."""

    def create_blocking(self, request: CreateRequest) -> BlockingSandbox:
        """The same for blocking callers. Unless a backend has a driver of its own, through one event-loop thread."""
        from isandbox.sync._bridge import bridge

        return bridge(self, request)
