"""Which backends run here, why the others do not, and which one `create_sandbox()` takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isandbox._registry import is_built_in, load_backend
from isandbox._request import make_request
from isandbox._settings import default_type, read_settings
from isandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox.policy import Capabilities


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
