"""The lazy table of backends: names to strings. Nothing here imports an adapter until it is asked for."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING

from isandbox.errors import BackendUnavailableError, ConfigurationError

if TYPE_CHECKING:
    from isandbox.backend import Backend

# name -> "module:class"
_BUILT_IN = {
    "local": "isandbox_backends.local:LocalBackend",
    "seccomp": "isandbox_backends.seccomp:SeccompBackend",
}
_ALIASES = {"node": "local"}
_ENTRY_POINTS = "isandbox.backends"


def backend_names() -> list[str]:
    """Every name that ``SANDBOX_TYPE`` may hold, aliases and installed third-party backends included, sorted."""
    return sorted({*_BUILT_IN, *_ALIASES, *(entry.name for entry in metadata.entry_points(group=_ENTRY_POINTS))})


def load_backend(name: str) -> Backend:
    """The backend of this name. A built-in name cannot be taken over by an entry point.

    Raises `ConfigurationError` for an unknown name, `BackendUnavailableError` when its module is not installed.
    """
    canonical = _ALIASES.get(name, name)
    target = _BUILT_IN.get(canonical) or _installed(canonical)
    if target is None:
        raise ConfigurationError(f"unknown sandbox type {name!r}; valid are: {', '.join(backend_names())}")
    module_name, _, attribute = target.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise BackendUnavailableError(f"the {name} backend is not installed: {module_name} is missing") from error
        package = missing.partition(".")[0]
        raise BackendUnavailableError(f"the {name} backend needs {missing}: pip install {package}") from error
    backend: Backend = getattr(module, attribute)()
    return backend


def _installed(name: str) -> str | None:
    for entry in metadata.entry_points(group=_ENTRY_POINTS, name=name):
        return entry.value
    return None
