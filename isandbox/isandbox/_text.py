"""Texts on their way to the kernel, which takes bytes."""

from __future__ import annotations

from isandbox.errors import ConfigurationError


def encoded(text: str, what: str) -> bytes:
    """UTF-8, with the bytes that Python carries as lone surrogates put back.

    Raises `ConfigurationError` for a surrogate that stands for no byte. Python's own error holds the whole text, which may
    be a secret, so that one is not even its context.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        position = error.start
    raise ConfigurationError(f"{what}: character {position} is half of a surrogate pair, which no program can be given")


def shown(value: object) -> str:
    """A value for a message. Python refuses to write a number of thousands of digits; nobody would read it either."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    try:
        return repr(value)
    except ValueError:  # such a number is within it
        return f"a {type(value).__name__} with a number of thousands of digits"


def plain(text: str) -> str:
    """A name or path for a message that a person reads: as it is, or in quoted form when it holds anything that a terminal
    would act on: names are chosen by code that nobody has reviewed.
    """
    return text if text.isprintable() else repr(text)
