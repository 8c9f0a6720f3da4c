"""What a probe is and what it finds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from isandbox.policy import Capabilities
    from isandbox.testing.containment.arena import Arena

Outcome = Literal["BLOCKED", "CONTAINED", "NOT-PROVIDED", "LEAK", "VACUOUS"]
"""``BLOCKED``: refused. ``CONTAINED``: it worked, and only inside. ``NOT-PROVIDED``: the backend does not claim this, and it was
not tried. ``LEAK``: it reached the host, or was answered in a way that is no refusal. ``VACUOUS``: nothing is proven, because
the positive control failed or this machine does not have what would be attacked."""

Group = Literal["filesystem", "processes", "resources", "interface"]
DETAIL_LIMIT = 400


@dataclass(frozen=True, slots=True)
class Verdict:
    """One probe's judgement. ``mechanism``: what stopped it, by the errno that it gave or the place where it ended.
    ``figures``: numbers that are worth keeping, by name.
    """

    outcome: Outcome
    mechanism: str = ""
    detail: str = ""
    figures: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Probe:
    """One check of the catalogue. ``claim``: what a backend must claim for this to be a promise: a `Protection`,
    ``quotas.NAME``, or ``interface``, which every backend owes. ``timeout``: seconds for all of it; no answer by then is a leak.
    """

    id: str
    title: str
    group: Group
    claim: str
    attempt: Callable[[Arena], Awaitable[Verdict]]
    timeout: float = 60.0

    def claimed_by(self, capabilities: Capabilities) -> bool:
        """Whether the backend's record promises what this probe tries."""
        kind, _, name = self.claim.partition(".")
        if kind == "quotas":
            return capabilities.quota(name).kind != "unsupported"
        return self.claim == "interface" or self.claim in capabilities.protections


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the audit."""

    probe: str
    title: str
    group: Group
    outcome: Outcome
    mechanism: str = ""
    detail: str = ""
    figures: Mapping[str, int] = field(default_factory=dict)
