"""Which backends are asked for sandboxes that are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isandbox._life import backend_of_id
from isandbox._registry import canonical_names, load_backend, own_names
from isandbox._request import check_labels
from isandbox.errors import BackendUnavailableError, ConfigurationError
from isandbox.records import ReapReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from isandbox.backend import Backend
    from isandbox.records import SandboxSummary


def backend_for(id: str) -> Backend:
    """The backend of an id's prefix. Raises `ConfigurationError`, with the prefixes that there are."""
    name = backend_of_id(id, own_names()) or backend_of_id(id, canonical_names())
    if name is None:
        prefixes = ", ".join(f"{known}-" for known in canonical_names())
        raise ConfigurationError(f"id: {id!r} is of no backend here; ids begin with {prefixes}")
    return load_backend(name)


def chosen(type: str | None) -> list[Backend]:
    """The backend that is named, else those of this machine that can be loaded."""
    if type is not None:
        return [load_backend(type)]
    found = []
    for name in own_names():
        try:
            found.append(load_backend(name))
        except BackendUnavailableError:  # not of this platform: it has no sandboxes here
            continue
    return found


def listed(backends: Sequence[Backend], labels: Mapping[str, str] | None) -> list[SandboxSummary]:
    wanted = check_labels(labels).items()
    found = [summary for backend in backends for summary in backend.list() if wanted <= summary.labels.items()]
    return sorted(found, key=lambda summary: (summary.created_at, summary.id))


def reaped() -> ReapReport:
    """Every backend has its turn, also after one that fails; the first failure is raised then."""
    removed: set[str] = set()
    failures: list[Exception] = []
    for backend in chosen(None):
        try:
            removed.update(backend.reap().removed)
        except Exception as error:  # whatever a backend raises, the others' leftovers go
            failures.append(error)
    if failures:
        raise failures[0]
    return ReapReport(tuple(sorted(removed)))
