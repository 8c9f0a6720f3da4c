"""What the doctor found, as lines for a person and as one object for a program. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from isandbox.cli._layout import fitted
from isandbox.cli._neutral import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from isandbox.cli.doctor.backends import Default, Finding
    from isandbox.cli.doctor.quotas import Measured
    from isandbox.cli.doctor.view import Row
    from isandbox.policy import Enforcement


def as_object(
    findings: Sequence[Finding], default: Default, measured: Sequence[Measured], rows: Sequence[Row]
) -> dict[str, Any]:
    return {
        "default": asdict(default),
        "backends": [_backend_object(found) for found in findings],
        "measured": [asdict(one) for one in measured],
        "host": [asdict(row) for row in rows],
    }


def _backend_object(found: Finding) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": found.name,
        "aliases": list(found.aliases),
        "available": found.reason is None,
        "tried": found.tried,
        "reason": found.reason,
    }
    if found.capabilities is not None:
        record = found.capabilities
        row["isolation"] = record.isolation
        row["quotas"] = {name: asdict(entry) for name, entry in record.quotas.items()}
        row["policies"] = {name: asdict(entry) for name, entry in record.policies.items()}
        row["verbs"] = sorted(record.verbs)
        row["weaknesses"] = list(record.weaknesses)
        row["layers"] = dict(found.layers)
    return row


def backend_lines(findings: Sequence[Finding]) -> Iterator[str]:
    for found in findings:
        also = f" (also {', '.join(found.aliases)})" if found.aliases else ""
        if found.capabilities is None:
            yield f"{visible(found.name)}{also}: not available"
            yield fitted(f"    {_line(found.reason or '')}", 4)
            continue
        said = "available" if found.tried else "available, by what it says; not tried"
        yield f"{visible(found.name)}{also}: {said}; isolation {found.capabilities.isolation}"
        yield from _table("quotas", found.capabilities.quotas)
        yield from _table("policies", found.capabilities.policies)
        yield from layer_lines(found.layers)
        if found.capabilities.verbs:
            yield _row("verbs", ", ".join(sorted(found.capabilities.verbs)))
        yield from (_row("weakness", sentence) for sentence in found.capabilities.weaknesses)


def default_lines(default: Default) -> Iterator[str]:
    yield ""
    why = "the platform's native backend" if default.chosen_by == "platform" else f"{visible(default.chosen_by)} says so"
    if default.reason is None:
        yield f"create_sandbox() uses {default.name}: {why}."
    else:
        yield fitted(f"create_sandbox() refuses: {_line(default.reason)}", 4)
        yield "Nothing weaker takes its place unless you name it, with SANDBOX_TYPE or type=."


def _row(title: str, text: str) -> str:
    return fitted(f"    {title:<9} {_line(text)}", 14)


def _table(title: str, entries: Mapping[str, Enforcement]) -> Iterator[str]:
    held = [f"{name} ({describe(entry)})" for name, entry in entries.items() if entry.kind != "unsupported"]
    refused = [name for name, entry in entries.items() if entry.kind == "unsupported"]
    if held:
        yield _row(title, ", ".join(held))
    if refused:
        yield _row("refused", ", ".join(refused))


def layer_lines(layers: Mapping[str, str]) -> Iterator[str]:
    """Those in force together, those that are not one by one with the reason."""
    in_force = [name + word.removeprefix("enforced") for name, word in layers.items() if word.startswith("enforced")]
    if in_force:
        yield _row("layers", ", ".join(in_force))
    yield from (_row("no layer", f"{name}: {word}") for name, word in layers.items() if not word.startswith("enforced"))


def describe(entry: Enforcement) -> str:
    """``kernel``, or ``watched every 0.05 s``."""
    return f"watched every {entry.period:g} s" if entry.kind == "watched" and entry.period else entry.kind


def measured_lines(name: str, measured: Sequence[Measured]) -> Iterator[str]:
    """Asked and reached of each quota. Nothing without any."""
    if not measured:
        return
    yield ""
    yield f"quotas of {name}, each hit in a sandbox:"
    for one in measured:
        figures = (
            ""
            if one.reached is None or one.asked is None
            else f"asked {_amount(one.asked, one.unit)}, reached " + _amount(one.reached, one.unit)
        )
        said = ": ".join(text for text in (figures, _line(one.detail)) if text)
        yield fitted(f"    {one.name:<11} {one.state:<13} {said}".rstrip(), 30)


def host_lines(rows: Sequence[Row]) -> Iterator[str]:
    """The checks that apply, then the commands that fix what is not well, each whole on a line of its own to be copied."""
    yield ""
    yield "this machine:"
    for row in rows:
        if row.state != "not applicable":
            yield fitted(f"    {row.name:<16} {row.state:<5} {_line(row.seen)}", 27)
    if rest := [row.name for row in rows if row.state == "not applicable"]:
        yield fitted(f"    not applicable here: {', '.join(rest)}", 4)
    fixes = [row for row in rows if row.fix]
    if fixes:
        yield ""
        yield "to change that:"
    for row in fixes:
        yield f"    {row.name}:"
        yield f"        {visible(row.fix)}"


def _line(text: str) -> str:
    return visible(" ".join(text.split()))


def _amount(value: float, unit: str) -> str:
    if unit != "bytes":
        return f"{value:.3g} {unit}"
    for factor, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor:
            return f"{value / factor:.4g} {name}"
    return f"{value:g} bytes"
