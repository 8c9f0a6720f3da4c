"""`isandbox inspect`: everything that is known of one sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from isandbox._text import plain
from isandbox.cli._layout import fitted
from isandbox.cli._neutral import visible
from isandbox.cli._output import say_object
from isandbox.cli._report import format_size
from isandbox.cli._streams import say
from isandbox.cli.life.edge import guarded
from isandbox.cli.life.ids import find_summary
from isandbox.cli.life.listing import process_object, state_of, summary_object
from isandbox.errors import UnsupportedError
from isandbox.sync import connect

if TYPE_CHECKING:
    from isandbox.records import SandboxInfo
    from isandbox.sync import ISandbox

_TITLE = 12  # columns
_SIZES = ("memory", "disk", "file_size", "output")


def inspect_command(id: str, *, as_json: bool) -> int:
    """0, or 125."""

    def work() -> int:
        found = look(id)
        return say_object(found) if as_json else say("\n".join(lines(found)), 0)

    return guarded(work, as_json=as_json)


def look(id: str) -> dict[str, Any]:
    """One object: the listing's row, and from the sandbox itself what it is, what it uses, and its kept commands. Of one that
    has ended, or that belongs to another process, the row alone.
    """
    summary = find_summary(id)
    found: dict[str, Any] = summary_object(summary)
    if summary.detached and summary.state == "running":
        with connect(summary.id) as sandbox:
            found |= _info_object(sandbox.info)
            found["metrics"] = asdict(sandbox.metrics())
            found["commands"] = _commands(sandbox)
    return found


def _info_object(info: SandboxInfo) -> dict[str, Any]:
    return {
        "isolation": info.isolation,
        "workspace": info.workspace,
        "quotas": {name: value for name, value in asdict(info.quotas).items() if value is not None},
        "layers": dict(info.layers),
        "waived": sorted(info.waived),
    }


def _commands(sandbox: ISandbox) -> list[dict[str, Any]]:
    try:
        return [process_object(one) for one in sandbox.processes()]
    except UnsupportedError:  # a backend without kept commands
        return []


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """For a person: what `look` found, in the order in which one asks."""
    for name in ("id", "type", "state", "isolation", "workspace", "created_at", "expires_at"):
        if found.get(name) is not None:
            yield _line(name.replace("_", " "), found[name])
    yield _line("owner", "detached" if found["detached"] else found["owner_pid"])
    yield from _pairs("labels", found["labels"])
    yield from _pairs("quotas", {name: _quota(name, value) for name, value in found.get("quotas", {}).items()})
    yield from _layers(found.get("layers", {}))
    if found.get("waived"):
        yield _line("waived", ", ".join(found["waived"]))
    if "metrics" in found:
        uses = found["metrics"]
        yield _line("uses", f"{uses['processes']} processes, {uses['cpu_time']:.2f} s CPU, {uses['memory'] >> 20} MiB")
    for one in found.get("commands", ()):
        yield _line("command", f"{one['id']} {state_of(one)}: {plain(one['command'])}")


def _line(title: str, text: object) -> str:
    """Names of layers and the workspace are what the helper says, and it may be taken over."""
    return fitted(visible(f"{title:<{_TITLE}} {text}"), _TITLE + 1)


def _pairs(title: str, pairs: Mapping[str, object]) -> Iterator[str]:
    if pairs:
        yield _line(title, ", ".join(plain(f"{name}={value}") for name, value in sorted(pairs.items())))


def _quota(name: str, value: float | str) -> str:
    return format_size(int(value)) if name in _SIZES else f"{value:g}" if isinstance(value, float) else str(value)


def _layers(layers: Mapping[str, str]) -> Iterator[str]:
    """Those in force together, the others one by one with the reason, as `isandbox doctor` does."""
    held = [name + word.removeprefix("enforced") for name, word in layers.items() if word.startswith("enforced")]
    if held:
        yield _line("layers", ", ".join(held))
    yield from (_line("no layer", f"{name}: {word}") for name, word in layers.items() if not word.startswith("enforced"))
