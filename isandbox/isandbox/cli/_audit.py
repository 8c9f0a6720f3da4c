"""`isandbox audit`: the containment probes against a backend, as a table or as one JSON object."""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from isandbox.cli._layout import fitted
from isandbox.cli._neutral import visible
from isandbox.cli._output import say_failure, say_object
from isandbox.cli._streams import FAILED, STDERR, hold_standard_descriptors, say
from isandbox.errors import SandboxError
from isandbox.testing.containment import BackendTarget, Finding, Outcome, Probe, all_probes, run_probe

LEAKS, INTERRUPTED = 1, 130
_ID = 14  # columns
_ORDER: tuple[Outcome, ...] = ("LEAK", "VACUOUS", "NOT-PROVIDED", "CONTAINED", "BLOCKED")


def audit_command(type_: str | None, *, only: Sequence[str], as_json: bool) -> int:
    """Print the findings. 0 without a leak, 1 with one, 125 when the backend cannot be probed or the audit itself fails.

    Raises `click.UsageError` when ``only`` names no probe.
    """
    hold_standard_descriptors()
    probes = _chosen(only)
    target = BackendTarget(type_)
    ended: list[int] = []
    try:
        return asyncio.run(_until_ended(_audit(target, probes, as_json=as_json), ended))
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:
        return 128 + ended[0]
    except (SandboxError, OSError) as error:
        return say_failure(error, as_json=as_json)
    except Exception:  # a probe's or a backend's fault; without this its exit code would be that of a leak
        return say("\n".join(map(visible, traceback.format_exc().splitlines())), FAILED, STDERR)


def _chosen(only: Sequence[str]) -> list[Probe]:
    probes = all_probes()
    for prefix in only:
        if not any(_begins(one, prefix) for one in probes):
            raise click.UsageError(
                f"--only {prefix}: no probe has an id that begins so; there are {probes[0].id} to {probes[-1].id}"
            )
    return [one for one in probes if not only or any(_begins(one, prefix) for prefix in only)]


def _begins(probe: Probe, prefix: str) -> bool:
    return probe.id.lower().startswith(prefix.lower())


async def _until_ended(audit: Coroutine[Any, Any, int], ended: list[int]) -> int:
    """Cancel it on SIGTERM and SIGHUP, so that no planted file stays; those that were ignored stay ignored (nohup)."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(audit)

    def end(number: int) -> None:
        ended.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    return await task


async def _audit(target: BackendTarget, probes: list[Probe], *, as_json: bool) -> int:
    await target.look()
    findings = []
    for one in probes:
        found = await run_probe(one, target)
        findings.append(found)
        if not as_json and (code := say(row(found), 0)) != 0:
            return code
    code = exit_code(findings)
    if as_json:
        return say_object(as_object(target.name, findings), code)
    return say("\n".join(summary(target.name, findings)), code)


def exit_code(findings: Sequence[Finding]) -> int:
    """A leak is the worst. Where probes were tried and not one proved anything, the backend was not probed at all."""
    outcomes = {found.outcome for found in findings}
    if "LEAK" in outcomes:
        return LEAKS
    return FAILED if "VACUOUS" in outcomes and not outcomes & {"BLOCKED", "CONTAINED"} else 0


def as_object(name: str, findings: Sequence[Finding]) -> dict[str, object]:
    """``type``, ``counts`` (outcome to number), ``figures`` and ``findings``."""
    return {
        "type": name,
        "counts": counts(findings),
        "figures": figures(findings),
        "findings": [asdict(found) for found in findings],
    }


def row(found: Finding) -> str:
    """One line, more at a terminal that is too narrow: id, outcome, title, and what stopped it or what was found."""
    why = found.mechanism if found.outcome in ("BLOCKED", "CONTAINED") else found.detail
    line = f"{found.probe:<{_ID}} {found.outcome:<12} {found.title}" + (f": {why}" if why else "")
    return fitted(visible(line), _ID + 14)


def summary(name: str, findings: Sequence[Finding]) -> Iterator[str]:
    """The counts, and the figures that may only fall."""
    yield ""
    yield f"{name}: " + ", ".join(f"{number} {outcome}" for outcome, number in counts(findings).items())
    yield from (f"{figure.replace('_', ' ')}: {number}" for figure, number in figures(findings).items())


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """The worst first; every outcome, also those that did not occur."""
    found = Counter(one.outcome for one in findings)
    return {outcome: found[outcome] for outcome in _ORDER}


def figures(findings: Sequence[Finding]) -> dict[str, int]:
    """The numbers of all probes."""
    return {name: number for found in findings for name, number in sorted(found.figures.items())}
