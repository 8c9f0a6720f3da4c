"""Settings as defaults for the options of one sandbox. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from isandbox._settings.variables import Settings, UnsetNumber, UnsetText
from isandbox.policy import Quotas

if TYPE_CHECKING:
    from isandbox.policy import Isolation


_QUOTAS = frozenset(f"quotas.{field.name}" for field in fields(Quotas))


@dataclass(frozen=True, slots=True)
class Applied:
    """The options, and by key of the setting where each came from that a setting decided."""

    quotas: Any
    start_timeout: float
    min_isolation: Isolation
    origins: dict[str, str]


def applied(settings: Settings, quotas: Any, start_timeout: float, min_isolation: Isolation, *, whole: bool) -> Applied:
    """What the caller has not given is taken from the settings. ``whole``: a whole policy was given, whose quotas are those in it."""
    origins: dict[str, str] = {}
    values = settings.values
    if isinstance(start_timeout, UnsetNumber) and "start_timeout" in values:
        start_timeout = values["start_timeout"]  # type: ignore[assignment] # read as seconds
        origins["start_timeout"] = settings.origins["start_timeout"]
    if isinstance(min_isolation, UnsetText) and "min_isolation" in values:
        min_isolation = values["min_isolation"]  # type: ignore[assignment] # read as a rung
        origins["min_isolation"] = settings.origins["min_isolation"]
    if not whole and (quotas is None or isinstance(quotas, Quotas)):
        quotas, of_quotas = with_quotas(settings, Quotas() if quotas is None else quotas)
        origins.update(of_quotas)
    return Applied(quotas, start_timeout, min_isolation, origins)


def with_quotas(settings: Settings, given: Quotas) -> tuple[Quotas, dict[str, str]]:
    """Quotas count one by one: a caller's ``Quotas(cpus=1)`` leaves a setting of ``memory`` in force."""
    said = {f"quotas.{name}" for name in (*given.asked(), *_lifted(given))}
    keys = [key for key in settings.values if key in _QUOTAS - said]
    chosen: dict[str, Any] = {key.partition(".")[2]: settings.values[key] for key in keys}
    return (replace(given, **chosen) if chosen else given), {key: settings.origins[key] for key in keys}


def _lifted(quotas: Quotas) -> list[str]:
    """Those whose default the caller took away."""
    unset = Quotas()
    return [
        field.name
        for field in fields(Quotas)
        if getattr(quotas, field.name) is None and getattr(unset, field.name) is not None
    ]
