"""The containment catalogue as probes: what code inside may try, run against any backend, and what became of it.

``isandbox audit`` prints the table; `tests/security` of the project holds the same probes against its own backends. Rules for a
probe: it never writes to a control file (it opens and closes it), has a bound on every count, size and wait, stays on the
machine, plants canaries and proves by a positive control that a success would have been seen.
"""

from __future__ import annotations

from isandbox.testing.containment.arena import Arena, BackendTarget, Box, Target
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.peers import Listener
from isandbox.testing.containment.records import Finding, Outcome, Probe, Verdict
from isandbox.testing.containment.registry import all_probes, probe
from isandbox.testing.containment.run import audit, run_probe

__all__ = [
    "Arena",
    "BackendTarget",
    "Box",
    "Finding",
    "Listener",
    "Outcome",
    "Probe",
    "Target",
    "Verdict",
    "all_probes",
    "audit",
    "judge",
    "probe",
    "run_probe",
]
