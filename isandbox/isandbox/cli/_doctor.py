"""`isandbox doctor`: which backends run here, why the others do not, and which one `create_sandbox()` takes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from isandbox._registry import canonical_names, is_built_in, load_backend
from isandbox._request import make_request
from isandbox._settings import default_type, read_settings
from isandbox.cli._layout import fitted
from isandbox.cli._streams import hold_standard_descriptors, say
from isandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from isandbox.policy import Capabilities, Enforcement

UNUSABLE = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One backend. ``tried``: a sandbox of it was started and closed again, so that available is more than a guess."""

    name: str
    aliases: tuple[str, ...]
    reason: str | None
    """Why it cannot run, with what to do about it; ``None`` when it can."""
    tried: bool = False
    capabilities: Capabilities | None = None
    layers: Mapping[str, str] = field(default_factory=dict)
    """Of the sandbox that was tried, as in its `info`: what its helper found in force."""


@dataclass(frozen=True, slots=True)
class Default:
    """What `create_sandbox()` takes: its name, who chose it, and why it cannot be used, ``None`` when it can."""

    name: str | None
    chosen_by: str
    reason: str | None


def doctor_command(*, as_json: bool) -> int:
    """Print the findings. 0 when the default backend can run, 1 when not."""
    hold_standard_descriptors()
    findings = [examine(name, aliases) for name, aliases in canonical_names().items()]
    default = examine_default(findings)
    text = _object(findings, default) if as_json else "\n".join(_lines(findings, default))
    return say(text, 0 if default.reason is None else UNUSABLE)


def examine(name: str, aliases: tuple[str, ...] = ()) -> Finding:
    """Ask the backend; one of our own, which is on this machine, is tried as well."""
    try:
        backend = load_backend(name)
        reason = backend.unavailable()
        if reason is not None:
            return Finding(name, aliases, reason)
        capabilities = backend.capabilities()
        layers = _try(name) if is_built_in(name) else {}
    except (SandboxError, OSError) as error:
        return Finding(name, aliases, _without_name(str(error), name))
    except Exception as error:  # somebody else's module: whatever it raises is the finding
        return Finding(name, aliases, f"its module fails: {type(error).__name__}: {error}")
    return Finding(name, aliases, None, tried=is_built_in(name), capabilities=capabilities, layers=layers)


def _try(name: str) -> Mapping[str, str]:
    from isandbox.sync import create_sandbox

    with create_sandbox(name) as sandbox:
        sandbox.exec(["true"], timeout=20).check()
        return sandbox.info.layers


def examine_default(findings: list[Finding]) -> Default:
    """In the words with which `create_sandbox()` would refuse."""
    chosen_by, name = "platform", None
    try:
        chosen_by = read_settings().origins.get("type", chosen_by)
        name = default_type()
        backend, _ = make_request()
    except SandboxError as error:
        return Default(name, chosen_by, str(error))
    except Exception as error:  # as in `examine`
        return Default(name, chosen_by, f"{type(error).__name__}: {error}")
    return Default(name, chosen_by, next((found.reason for found in findings if found.name == backend.name), None))


def _without_name(message: str, name: str) -> str:
    """The row has the name already."""
    return message.removeprefix(f"the {name} backend cannot run here: ")


def _object(findings: list[Finding], default: Default) -> str:
    return json.dumps({"default": asdict(default), "backends": [_backend_object(found) for found in findings]})


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


def _lines(findings: list[Finding], default: Default) -> Iterator[str]:
    for found in findings:
        also = f" (also {', '.join(found.aliases)})" if found.aliases else ""
        if found.capabilities is None:
            yield f"{found.name}{also}: not available"
            yield fitted(f"    {found.reason}", 4)
            continue
        said = "available" if found.tried else "available, by what it says; not tried"
        yield f"{found.name}{also}: {said}; isolation {found.capabilities.isolation}"
        yield from _table("quotas", found.capabilities.quotas)
        yield from _table("policies", found.capabilities.policies)
        yield from _layers(found.layers)
        if found.capabilities.verbs:
            yield _row("verbs", ", ".join(sorted(found.capabilities.verbs)))
        yield from (_row("weakness", sentence) for sentence in found.capabilities.weaknesses)
    yield ""
    why = "the platform's native backend" if default.chosen_by == "platform" else f"{default.chosen_by} says so"
    if default.reason is None:
        yield f"create_sandbox() uses {default.name}: {why}."
    else:
        yield fitted(f"create_sandbox() refuses: {default.reason}", 4)
        yield "Nothing weaker takes its place unless you name it, with SANDBOX_TYPE or type=."


def _row(title: str, text: str) -> str:
    return fitted(f"    {title:<9} {text}", 14)


def _table(title: str, entries: Mapping[str, Enforcement]) -> Iterator[str]:
    held = [f"{name} ({describe(entry)})" for name, entry in entries.items() if entry.kind != "unsupported"]
    refused = [name for name, entry in entries.items() if entry.kind == "unsupported"]
    if held:
        yield _row(title, ", ".join(held))
    if refused:
        yield _row("refused", ", ".join(refused))


def _layers(layers: Mapping[str, str]) -> Iterator[str]:
    """Those in force together, those that are not one by one with the reason."""
    in_force = [name + word.removeprefix("enforced") for name, word in layers.items() if word.startswith("enforced")]
    if in_force:
        yield _row("layers", ", ".join(in_force))
    yield from (_row("no layer", f"{name}: {word}") for name, word in layers.items() if not word.startswith("enforced"))


def describe(entry: Enforcement) -> str:
    """``kernel``, or ``watched every 0.05 s``."""
    return f"watched every {entry.period:g} s" if entry.kind == "watched" and entry.period else entry.kind
