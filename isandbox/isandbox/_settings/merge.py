"""Which word counts: variable before project file before user's file. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from isandbox._settings.table import BY_KEY, BY_VARIABLE, from_variable
from isandbox._settings.variables import PREFIX, Settings
from isandbox._text import plain
from isandbox._toml import nearest
from isandbox.errors import ConfigurationError

if TYPE_CHECKING:
    from isandbox._settings.files import Document
    from isandbox._settings.table import Setting


def merged(variables: Mapping[str, str], documents: Sequence[Document]) -> Settings:
    """The settings of these variables and files.

    A file that is not the user's own may only narrow: what asks for more than holds without it changes nothing. An unknown variable
    is `ConfigurationError`, and so is a value that is not valid, which stands in no message.
    """
    for name in variables:
        if name.startswith(PREFIX) and name not in BY_VARIABLE:
            raise ConfigurationError(f"{plain(name)}: isandbox knows no such variable; {nearest(name, BY_VARIABLE)}")
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for document in sorted(documents, key=lambda document: not document.trusted):
        for key, value in document.values.items():
            row = BY_KEY[key]
            if document.trusted or row.narrower(value, than=values.get(key, row.unset)):
                values[key], origins[key] = value, document.where
    for name, text in variables.items():
        row_of = BY_VARIABLE.get(name)
        if row_of is not None and row_of.key and text:  # an empty one counts as unset
            values[row_of.key], origins[row_of.key] = _of_variable(row_of, text), name
    return Settings(MappingProxyType(values), MappingProxyType(origins))


def _of_variable(row: Setting, text: str) -> object:
    if row.variable == "SANDBOX_TYPE":  # the registry says what is wrong with it
        return text
    try:
        return row.read(from_variable(text))
    except ConfigurationError:
        pass  # its message, and so its context, holds the value
    raise ConfigurationError(f"{row.variable}: {row.allowed}")
