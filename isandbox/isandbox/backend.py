"""What a backend gives the factory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from isandbox.errors import UnsupportedError
from isandbox.records import ReapReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from isandbox.events import EventSink
    from isandbox.policy import Capabilities, Policy
    from isandbox.records import SandboxSummary
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
    lifetime: float | None = None
    """Seconds after which the sandbox ends by itself; ``None``: none. At least a millisecond where a clock counts those."""
    idle_timeout: float | None = None
    """Seconds without a running command and without a call after which it ends by itself."""
    detached: bool = False
    """It outlives this process, and can be found by its id. There is a ``lifetime`` then."""
    idempotency_key: str | None = field(default=None, repr=False)
    """Who asks again under this key gets the sandbox that there is; ``detached`` then."""
    options_digest: str = ""
    """Of all that decides what is made: differs under one key when other options are asked for. Empty without a key."""


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

    def check_request(self, request: CreateRequest) -> None:
        """The same for what the policy does not hold: a life that the chosen options exclude. After `check`."""

    @abstractmethod
    async def create(self, request: CreateRequest) -> ISandbox:
        """Make a sandbox, or raise and leave nothing behind.

        With an ``idempotency_key`` that has a sandbox: a handle on that one, which closes on leaving as a new one would.
        `ConfigurationError` when its ``options_digest`` is another one, `SandboxNotFoundError` when it has ended.
        """

    def create_blocking(self, request: CreateRequest) -> BlockingSandbox:
        """The same for blocking callers. Unless a backend has a driver of its own, through one event-loop thread."""
        from isandbox.sync._bridge import bridge

        return bridge(self, request)

    async def connect(self, id: str, on_event: EventSink | None = None) -> ISandbox:
        """A handle on a detached sandbox, ``connected``; the id begins with this backend's name and has been checked.

        Raises `SandboxNotFoundError`, `SandboxBusyError` when it takes no more clients. For backends whose record has the
        verb ``detach``, as are the next three; all of them refuse unless they are overridden.
        """
        raise UnsupportedError(
            f"connect: the {self.name} backend cannot do this; keep the handle that made the sandbox",
            option="connect",
            backend=self.name,
        )

    def connect_blocking(self, id: str, on_event: EventSink | None = None) -> BlockingSandbox:
        """The same for blocking callers, by default through one event-loop thread."""
        from isandbox.sync._bridge import bridge_connection

        return bridge_connection(self, id, on_event)

    def list(self) -> Sequence[SandboxSummary]:
        """The caller's sandboxes of this backend, owned ones in other processes too where they can be seen.

        It may block, as may `kill` and `reap`: the async interface calls them in a thread.
        """
        return ()

    def kill(self, id: str) -> bool:
        """End a sandbox and remove what it made, whoever uses it; back when it is gone. ``False``: it had ended before.

        Raises `SandboxNotFoundError` for an id that was never heard of.
        """
        raise UnsupportedError(
            f"kill: the {self.name} backend cannot do this; close the sandbox where it was made",
            option="kill",
            backend=self.name,
        )

    def reap(self) -> ReapReport:
        """Remove what dead owners and ended sandboxes left, and nothing of what lives or of what nobody can tell."""
        return ReapReport()
