"""Verdicts from what is looked at on the host's side, where no errno tells the story."""

from __future__ import annotations

from isandbox.testing.containment.judge import shown
from isandbox.testing.containment.records import Outcome, Verdict


class Checks:
    """Collects what must hold and what proves that it was really tried."""

    def __init__(self) -> None:
        self._held = 0
        self._controls = 0
        self._failed: list[str] = []
        self._broken: list[str] = []

    def hold(self, what: str, held: bool, found: object = "") -> None:
        """A promise. One that does not hold is a leak."""
        self._held += 1
        if not held:
            self._broken.append(_line(what, found))

    def control(self, what: str, held: bool, found: object = "") -> None:
        """A positive control. One that fails says that nothing is proven."""
        self._controls += 1
        if not held:
            self._failed.append(_line(what, found))

    def verdict(self, outcome: Outcome, mechanism: str, detail: str = "", **figures: int) -> Verdict:
        """``VACUOUS`` when a control failed or there was none, ``LEAK`` when a promise was broken, else ``outcome``."""
        if self._failed or not self._controls or not self._held:
            return Verdict("VACUOUS", detail=shown(self._failed) or "no positive control, or nothing tried")
        if self._broken:
            return Verdict("LEAK", detail=shown(self._broken))
        return Verdict(outcome, mechanism, detail or f"{self._held} checks", figures)


def _line(what: str, found: object) -> str:
    return f"not so: {what}" + (f" ({found})" if str(found) else "")
