"""How much a tree or an archive may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from isandbox._text import shown
from isandbox.errors import ConfigurationError

if TYPE_CHECKING:
    from isandbox.records import Transfer

Unsafe = Literal["refuse", "skip"]


@dataclass(frozen=True)
class Limits:
    """Bounds of one transfer. Raises `ConfigurationError` for what is no positive number."""

    members: int = 100_000
    """Files, directories and links, those that a path only implies among them."""
    bytes: int = 4 << 30
    """Bytes of all files together."""
    depth: int = 64
    """Directories on the way to an entry, and the entry."""
    ratio: int = 200
    """Bytes of files for each byte of an archive, by compression or hard links, past 16 MiB. Text is rarely above 20."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
                raise ConfigurationError(f"max_{field.name}: a number above 0, not {shown(value)}")


@dataclass(frozen=True, slots=True)
class Options:
    """What every transfer can be told."""

    limits: Limits
    unsafe: Unsafe = "refuse"
    user: str | None = None
    on_progress: Callable[[Transfer], Any] | None = None

    def __post_init__(self) -> None:
        if self.unsafe not in ("refuse", "skip"):
            raise ConfigurationError(f"unsafe: 'refuse' or 'skip', not {self.unsafe!r}")
        if self.on_progress is not None and not callable(self.on_progress):
            raise ConfigurationError(f"on_progress: a function of one record, not {self.on_progress!r}")
