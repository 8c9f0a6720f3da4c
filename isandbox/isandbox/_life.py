"""How long a sandbox lives and who may find it: the checks of those options and of ids. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from isandbox._text import shown
from isandbox.errors import ConfigurationError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from isandbox.backend import Backend

LIFETIME_LARGEST = 30 * 86_400  # what nobody has renewed for a month, nobody uses
KEY_LENGTH_LARGEST = 255
ID_LENGTH_LARGEST = 200
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+\Z")


def check_seconds(value: object, name: str) -> float:
    """Seconds of a life: above 0 and at most 30 days. Raises `ConfigurationError`."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= LIFETIME_LARGEST:  # type: ignore[operator]  # false for NaN too
        raise ConfigurationError(f"{name}: seconds above 0 and at most {LIFETIME_LARGEST} (30 days), not {shown(value)}")
    return float(value)  # type: ignore[arg-type]


def check_life(lifetime: object, idle_timeout: object, detached: object, idempotency_key: object) -> None:
    """The four options by themselves and together, whatever the backend. Raises `ConfigurationError`."""
    for name, value in (("lifetime", lifetime), ("idle_timeout", idle_timeout)):
        if value is not None:
            check_seconds(value, name)
    if not isinstance(detached, bool):
        raise ConfigurationError(f"detached: True or False, not {shown(detached)}")
    if detached and lifetime is None:
        raise ConfigurationError("detached: a sandbox that outlives its owner needs an end; give lifetime=SECONDS too")
    if idempotency_key is None:
        return
    if not isinstance(idempotency_key, str) or not 1 <= len(idempotency_key) <= KEY_LENGTH_LARGEST:
        raise ConfigurationError(f"idempotency_key: a text of 1 to {KEY_LENGTH_LARGEST} characters")  # it may be a secret
    if not idempotency_key.isprintable():
        raise ConfigurationError("idempotency_key: printable characters only")
    if not detached:
        raise ConfigurationError(
            "idempotency_key: an owned sandbox cannot be found again; give detached=True, lifetime=SECONDS"
        )


def refuse_unsupported_life(backend: Backend, lifetime: float | None, idle_timeout: float | None, detached: bool) -> None:
    """Raise `UnsupportedError` for what the verbs of the backend's record do not claim."""
    verbs = backend.capabilities().verbs
    asked = {
        "detached": (detached, "detach", "leave it out, and keep this process for as long as the sandbox is needed"),
        "lifetime": (lifetime is not None, "lifetime", "leave it out, and close the sandbox yourself"),
        "idle_timeout": (idle_timeout is not None, "lifetime", "leave it out, and close the sandbox yourself"),
    }
    for option, (wanted, verb, instead) in asked.items():
        if wanted and verb not in verbs:
            raise UnsupportedError(
                f"{option}: the {backend.name} backend cannot do this; {instead}", option=option, backend=backend.name
            )


def backend_of_id(id: object, names: Iterable[str]) -> str | None:
    """The one of the backends' ``names`` that the id begins with, the longest; ``None`` when there is none.

    Raises `ConfigurationError` for what no sandbox's id looks like, before anything is looked up: it becomes a file name.
    """
    if not isinstance(id, str):
        raise ConfigurationError(f"id: a text such as seccomp-0123456789abcdef, not {id.__class__.__name__}")
    if len(id) > ID_LENGTH_LARGEST:
        raise ConfigurationError(f"id: at most {ID_LENGTH_LARGEST} characters, not {len(id)}")
    if not _ID.match(id):
        raise ConfigurationError(
            f"id: {id!r} is not one; an id begins with its backend's name, as in seccomp-0123456789abcdef"
        )
    return max((name for name in names if id.startswith(f"{name}-")), key=len, default=None)
