"""The lazy table of backends: names to strings. Nothing here imports an adapter until it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, metadata
from operator import attrgetter
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
# Their modules import fcntl, resource and the like: on Windows they cannot even say themselves why they do not run.
_POSIX_ONLY = ("local", "seccomp")
_ENTRY_POINTS = "isandbox.backends"
_STAND_INS: dict[str, Backend] = {}


def backend_names() -> list[str]:
    """Every name that ``SANDBOX_TYPE`` may hold, aliases and installed third-party backends included, sorted."""
    return sorted({*_BUILT_IN, *_ALIASES, *_STAND_INS, *(entry.name for entry in metadata.entry_points(group=_ENTRY_POINTS))})


def canonical_names() -> dict[str, tuple[str, ...]]:
    """Each backend's own name, sorted, with the aliases that it has."""
    names = [name for name in backend_names() if name not in _ALIASES]
    return {name: tuple(sorted(alias for alias, of in _ALIASES.items() if of == name)) for name in names}


def own_names() -> list[str]:
    """The names, without aliases, of backends on this machine; while tests have stand-ins, of those alone: what ends or removes
    every sandbox that it finds must not find the real ones then.
    """
    return sorted(_STAND_INS or _BUILT_IN)


@contextmanager
def stand_in(name: str, backend: Backend) -> Iterator[None]:
    """For the tests of programs that use sandboxes: ``name`` is this backend, until the context is left.

    Raises `ConfigurationError` for a name that is taken.
    """
    if name in backend_names():
        raise ConfigurationError(f"a backend of the name {name!r} is there already")
    _STAND_INS[name] = backend
    try:
        yield
    finally:
        del _STAND_INS[name]


def standing_in(name: str) -> Backend | None:
    return _STAND_INS.get(name)


def is_built_in(name: str) -> bool:
    """Ours, and so on this machine: trying it reaches no service and costs nobody money."""
    return name in _BUILT_IN


def load_backend(name: str) -> Backend:
    """The backend of this name. A built-in name cannot be taken over by an entry point.

    Raises `ConfigurationError` for an unknown name, `BackendUnavailableError` when its module is not installed.
    """
    if not isinstance(name, str):
        raise ConfigurationError(f"sandbox type: one of the names {', '.join(backend_names())}, not {name!r}")
    canonical = _ALIASES.get(name, name)
    if canonical in _STAND_INS:
        return _STAND_INS[canonical]
    target, fix = _BUILT_IN.get(canonical), "pip install --force-reinstall isandbox"
    if target is None and (entry := _installed(canonical)) is not None:
        target = f"{entry.module}:{entry.attr}"
        fix = f"pip install --upgrade {entry.dist.name}" if entry.dist else f"install what {entry.module} needs"
    if target is None:
        raise ConfigurationError(f"unknown sandbox type {name!r}; valid are: {', '.join(backend_names())}")
    if sys.platform == "win32" and canonical in _POSIX_ONLY:
        raise BackendUnavailableError(f"the {name} backend cannot run here: it needs Linux; this is {sys.platform}")
    module_name, _, attribute = target.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(error.name + ".")):
            raise BackendUnavailableError(f"the {name} backend needs the module {error.name}: {fix}") from error
        raise BackendUnavailableError(f"the {name} backend is not installed: {module_name} is missing") from error
    try:
        make = attrgetter(attribute)(module)
    except AttributeError as error:
        raise BackendUnavailableError(f"the {name} backend is broken: {module_name} has no {attribute!r}") from error
    backend: Backend = make()
    return backend


def _installed(name: str) -> metadata.EntryPoint | None:
    return next(iter(metadata.entry_points(group=_ENTRY_POINTS, name=name)), None)
