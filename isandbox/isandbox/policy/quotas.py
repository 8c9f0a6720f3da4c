"""Quotas: what a sandbox and its commands may use. Each is enforced or the create is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from isandbox._text import shown
from isandbox.errors import ConfigurationError

# Binary units only: "512MB" is refused, so that nobody has to guess which megabyte was meant.
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# At most 19 digits: what is longer is past 2**63 whatever its unit.
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,19})?)\s*([A-Za-z]*)\Z")
_LARGEST = (1 << 63) - 1  # the kernel's counters are signed 64-bit
_MOST_PIDS = 4_194_304  # PID_MAX_LIMIT of a 64-bit Linux kernel
_MOST_FILES = 1_048_576  # fs.nr_open's default: no process may have more


class _Default(int):
    """A default that a backend applies where it can. The same number written by a caller is a plain int: asked for."""


def parse_size(value: int | str, *, name: str = "size") -> int:
    """Bytes from a number of bytes or a text with a binary unit: ``"512MiB"``, ``"1.5 GiB"``, ``4096``.

    Raises `ConfigurationError` for zero, negative, fractional bytes, unknown units and sizes past 2**63 - 1.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ConfigurationError(f"{name}: a number of bytes or a text such as '512MiB', not {shown(value)}")
    if isinstance(value, str):
        match = _SIZE.match(value.strip())
        if match is None or match[2] not in _UNITS:
            raise ConfigurationError(f"{name}: {value!r} is not a size; use bytes or one of KiB, MiB, GiB, TiB")
        size = float(match[1]) * _UNITS[match[2]] if "." in match[1] else int(match[1]) * _UNITS[match[2]]
        if size != int(size):
            raise ConfigurationError(f"{name}: {value!r} is not a whole number of bytes")
        value = int(size)
    if not 0 < value <= _LARGEST:
        raise ConfigurationError(f"{name}: {shown(value)} is not between 1 and 2**63 - 1 bytes")
    return value


@dataclass(frozen=True, slots=True)
class Quotas:
    """Limits of one sandbox. ``None`` is no limit.

    A backend enforces each quota that you set or raises `UnsupportedError` when the sandbox is created; what it can do is
    in its `Capabilities`. The defaults of ``pids`` and ``open_files`` hold wherever the backend can hold them, and need no
    privileges. Sizes are bytes or texts with binary units (``"512MiB"``).
    """

    cpus: float | None = None
    """CPUs at once, for the whole sandbox. Without a control group only whole numbers (affinity)."""
    cpu_time: float | None = None
    """CPU seconds (user + system) of one command with all its children; over it the command ends with fault ``cpu``."""
    memory: int | str | None = None
    """Bytes of memory of the whole sandbox, its tmpfs included; over it a command ends with fault ``oom``: the one that
    the kernel chose in a control group, else the largest."""
    disk: int | str | None = None
    """Bytes that the sandbox may write in its workspace and scratch space."""
    pids: int | None = _Default(256)
    """Processes and threads at once, for the whole sandbox."""
    open_files: int | None = _Default(1024)
    """Open descriptors per process."""
    file_size: int | str | None = None
    """Bytes of the largest file that may be written."""
    output: int | str | None = None
    """Bytes of stdout and stderr together of one command; over it the command ends with fault ``output``."""

    def __post_init__(self) -> None:
        for name in ("memory", "disk", "file_size", "output"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, parse_size(value, name=f"quotas.{name}"))
        for name, most in (("cpus", 4096.0), ("cpu_time", 31_536_000.0)):
            _check_number(name, getattr(self, name), most)
        for name, most in (("pids", _MOST_PIDS), ("open_files", _MOST_FILES)):
            _check_whole(name, getattr(self, name), most)

    def asked(self) -> frozenset[str]:
        """Names of the quotas that the caller set; defaults are not among them."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return frozenset(name for name, value in values.items() if value is not None and not isinstance(value, _Default))

    def size(self, name: str) -> int | None:
        """A size quota as bytes: `__post_init__` has parsed it."""
        value = getattr(self, name)
        return None if value is None else int(value)


def _check_number(name: str, value: object, most: float) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"quotas.{name}: a number, not {shown(value)}")
    if not 0 < value <= most:  # false for NaN too
        raise ConfigurationError(f"quotas.{name}: {shown(value)} is not above 0 and at most {most:g}")


def _check_whole(name: str, value: object, most: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigurationError(f"quotas.{name}: a whole number from 1 to {most}, not {shown(value)}")
