"""The one module that reads isandbox's environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from isandbox.errors import BackendUnavailableError

if TYPE_CHECKING:
    from isandbox._settings.files import Document

_NATIVE = {"linux": "seccomp"}
PREFIX = "ISANDBOX_"
FILE = "isandbox.toml"
# What settings depend on: our own variables, and where the user's file is.
_READ = (PREFIX, "SANDBOX_TYPE", "XDG_CONFIG_HOME", "HOME")
# What only says where something is.
_NO_DEFAULTS = {"ISANDBOX_CONFIG", "ISANDBOX_STATE_DIR"}

_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Settings:
    """What is set, by the keys of ``isandbox.toml`` (``quotas.memory``); ``None`` is a quota without a limit.

    ``origins`` says for each key who set it: the name of a variable, or the path of a file.
    """

    values: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def sandbox_type(self) -> str | None:
        """Which backend `create_sandbox` takes when none is named; ``None`` is the platform's native one."""
        value = self.values.get("type")
        return value if isinstance(value, str) else None


class UnsetNumber(float):
    """A default of a signature. The same number written by a caller is a plain one, and stronger than any setting."""

    __slots__ = ()


class UnsetText(str):
    """The same for a text."""

    __slots__ = ()


_UNSET = Settings()
# The last answer, with the environment that it was made of.
_answer: tuple[object, Settings] = (None, _UNSET)
# The files, with the variables that say where they are: read once, until one of those changes.
_found: tuple[tuple[str | None, ...], tuple[Document, ...]] | None = None


def read_settings() -> Settings:
    """What variables and files set, in this order: variable, project file, user's file.

    Variables are read at every call, files once for each value of ``ISANDBOX_CONFIG``, ``XDG_CONFIG_HOME`` and ``HOME``: the
    project file is the one in the directory that was current then. Raises `ConfigurationError` for a variable or key that is not
    known or not valid, and for a file that cannot be trusted; nothing of that is remembered.
    """
    global _answer  # noqa: PLW0603 - one pair, replaced as a whole, so that threads see the old or the new one
    now = _environment()
    known, settings = _answer
    if now != known:
        seen = dict(now)  # first: what changes meanwhile is seen at the next call
        settings = _resolve({name: os.environ.get(name, "") for name in os.environ if name.startswith(_READ)})
        _answer = (seen, settings)
    return settings


def _environment() -> Mapping[Any, Any]:
    """Everything, to compare with. A plain dictionary inside `os.environ` does that twenty times as fast as `os.environ` itself, which
    decodes each name; where there is none, `os.environ` does.
    """
    inside = getattr(os.environ, "_data", None)
    return inside if type(inside) is dict else os.environ


def _resolve(variables: Mapping[str, str]) -> Settings:
    documents = _documents(variables)
    chosen = variables.get("SANDBOX_TYPE")
    if not documents and not any(name.startswith(PREFIX) for name in variables.keys() - _NO_DEFAULTS):
        # The usual case loads nothing more.
        return Settings({"type": chosen}, {"type": "SANDBOX_TYPE"}) if chosen else _UNSET
    from isandbox._settings.merge import merged

    return merged(variables, documents)


def _documents(variables: Mapping[str, str]) -> tuple[Document, ...]:
    global _found  # noqa: PLW0603 - as above
    where = tuple(variables.get(name) for name in ("ISANDBOX_CONFIG", "XDG_CONFIG_HOME", "HOME"))
    if _found is not None and _found[0] == where:
        return _found[1]
    named, xdg, home = where
    documents: tuple[Document, ...] = ()
    if named is not None:
        if named:
            from isandbox._settings.files import named_file

            documents = (named_file(named),)
    else:
        user = user_file(xdg, home)
        # Only looked at here: that there is none is what nearly every process finds.
        if os.path.lexists(FILE) or (user is not None and os.path.lexists(user)):
            from isandbox._settings.files import usual_files

            documents = usual_files(user)
    _found = (where, documents)
    return documents


def trusted_files() -> tuple[str, ...]:
    """Paths of the files that were read and are the user's own word."""
    return () if _found is None else tuple(document.path for document in _found[1] if document.trusted)


def user_file(xdg: str | None, home: str | None) -> str | None:
    """Where the user's file would be. A relative ``XDG_CONFIG_HOME`` does not count, as its specification says."""
    if xdg and os.path.isabs(xdg):
        return os.path.join(xdg, "isandbox", FILE)
    return os.path.join(home, ".config", "isandbox", FILE) if home and os.path.isabs(home) else None


@dataclass(frozen=True, slots=True)
class StateVariables:
    """``ISANDBOX_STATE_DIR``, ``XDG_STATE_HOME`` and ``HOME``, as they are now; empty counts as unset."""

    state_dir: str | None = None
    xdg_state_home: str | None = None
    home: str | None = None


def read_state_variables() -> StateVariables:
    names = ("ISANDBOX_STATE_DIR", "XDG_STATE_HOME", "HOME")
    return StateVariables(*(os.environ.get(name) or None for name in names))


def environment(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Those of the variables that are set now and not empty. Their values stand in no message."""
    return tuple((name, value) for name in names if (value := os.environ.get(name)))


def native_type() -> str | None:
    """The platform's native backend; ``None`` where there is none yet."""
    return _NATIVE.get(sys.platform)


def default_type() -> str:
    """``SANDBOX_TYPE``, else the user's setting, else the platform's native backend. Never a weaker one in its place."""
    chosen = read_settings().sandbox_type or native_type()
    if chosen is None:
        raise BackendUnavailableError(
            f"there is no native backend for {sys.platform} yet; name one, for example SANDBOX_TYPE=local (no isolation)"
        )
    return chosen
