"""`isandbox doctor`: what runs on this machine, what holds, and how to fix what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isandbox._registry import canonical_names, is_built_in
from isandbox.cli._output import say_object
from isandbox.cli._streams import hold_standard_descriptors, say
from isandbox.cli.doctor.backends import Default, Finding, examine, examine_default
from isandbox.cli.doctor.checks import CHECKS
from isandbox.cli.doctor.quotas import Measured, measure
from isandbox.cli.doctor.read import read_host
from isandbox.cli.doctor.show import as_object, backend_lines, default_lines, host_lines, measured_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

UNUSABLE = 1
CHECKED = "seccomp"
"""The backend whose needs the checks of the machine are about."""


def doctor_command(*, as_json: bool, quick: bool) -> int:
    """Print the findings. 0 when the default backend can run, 1 when not. ``quick``: without hitting the quotas."""
    hold_standard_descriptors()
    findings = [examine(name, aliases) for name, aliases in canonical_names().items()]
    default = examine_default(findings)
    measured = [] if quick else _measured(findings, default)
    view = read_host(next((found for found in findings if found.name == CHECKED), None))
    rows = [check(view) for check in CHECKS]
    code = 0 if default.reason is None else UNUSABLE
    if as_json:
        return say_object(as_object(findings, default, measured, rows), code)
    lines = [
        *backend_lines(findings),
        *measured_lines(default.name or "", measured),
        *host_lines(rows),
        *default_lines(default),
    ]
    return say("\n".join(lines), code)


def _measured(findings: Sequence[Finding], default: Default) -> list[Measured]:
    """Of the default backend where it runs and is ours: hitting the quotas of somebody else's service may cost money."""
    name = default.name
    found = next((one for one in findings if name is not None and name in (one.name, *one.aliases)), None)
    if default.reason is not None or found is None or found.capabilities is None or not is_built_in(found.name):
        return []
    return list(measure(found.name, found.capabilities))
