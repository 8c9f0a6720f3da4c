"""Checks of what the file verbs are given, the same for every backend. Pure."""

from __future__ import annotations

from isandbox._text import shown
from isandbox.errors import ConfigurationError

LARGEST = (1 << 63) - 1  # off_t


def check_part(offset: int, limit: int | None) -> None:
    """Which part of a file to read. Raises `ConfigurationError`."""
    for name, value in (("offset", offset), ("limit", limit)):
        if value is None and name == "limit":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
            raise ConfigurationError(f"read: {name} is a number of bytes from 0 to 2**63 - 1, not {shown(value)}")


def check_mode(mode: int | None, verb: str = "write") -> None:
    """Permission bits of what a verb makes. Raises `ConfigurationError`."""
    if mode is not None and (isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode <= 0o777):
        raise ConfigurationError(f"{verb}: mode is permission bits from 0 to 0o777, not {shown(mode)}")


def check_data(data: object) -> bytes:
    """A piece of a file's content. Raises `ConfigurationError` for what holds no bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ConfigurationError(f"write: data is bytes, not {type(data).__name__}; files.write takes texts")
    return bytes(data)
