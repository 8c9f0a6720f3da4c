"""A `Policy` from TOML."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from isandbox._document import read_text
from isandbox._text import plain
from isandbox._toml import check_keys, check_type, parse
from isandbox.errors import ConfigurationError
from isandbox.policy.mounts import Mount, Workspace, check_path
from isandbox.policy.policy import Policy
from isandbox.policy.quotas import Quotas
from isandbox.policy.rewriting import refuse_rewriting

# An environment may have 1 MiB.
LARGEST = 2 << 20
NO_LIMIT = "none"
# Field -> what it must be, for people.
_WORKSPACE = {"path": "a path", "mode": "one of rw, ro, overlay, copy", "deny": "a list of paths or patterns"}
_MOUNT = {"source": "a path", "target": "an absolute path inside", "mode": "'ro' or 'rw'"}
_POLICY = tuple(field.name for field in fields(Policy))
_QUOTAS = tuple(field.name for field in fields(Quotas))


def load(path: str | os.PathLike[str]) -> Policy:
    """`Policy.load`."""
    text = check_path(path, "policy")
    where = plain(text)
    document = read_text(text, where, most=LARGEST)
    if document is None:
        raise ConfigurationError(f"policy: {where} does not exist")
    policy = build(parse(document, where), where, os.path.dirname(os.path.abspath(text)))
    refuse_rewriting(policy, text, where)
    return policy


def build(document: Mapping[str, Any], where: str, directory: str | None) -> Policy:
    """The record of a parsed document. ``directory``: where relative paths begin; without it they stay as they are."""
    check_keys(document, _POLICY, where)
    parts: dict[str, Any] = {}
    if "workspace" in document:
        parts["workspace"] = _workspace(document["workspace"], f"{where}: workspace", directory)
    if "mounts" in document:
        check_type(document["mounts"], list, f"{where}: mounts", "tables, each under [[mounts]]")
        entries = enumerate(document["mounts"])
        parts["mounts"] = tuple(_mount(entry, f"{where}: mounts[{number}]", directory) for number, entry in entries)
    if "env" in document:
        parts["env"] = _env(document["env"], f"{where}: env")
    for name, of in (("network", "hosts"), ("waive", "names")):
        if name in document:
            parts[name] = tuple(_texts(document[name], f"{where}: {name}", f"a list of {of}"))
    if "quotas" in document:
        parts["quotas"] = _quotas(document["quotas"], where)
    with _Located(where):
        return Policy(**parts)


def _workspace(table: Any, where: str, directory: str | None) -> Workspace:
    check_type(table, dict, where, "a table with a path")
    given = _texts_of(table, where, _WORKSPACE, ("path",))
    given["path"] = _path(given["path"], f"{where}.path", directory)
    with _Located(where):
        return Workspace(**given)


def _mount(table: Any, where: str, directory: str | None) -> Mount:
    check_type(table, dict, where, "a table with a source and a target")
    given = _texts_of(table, where, _MOUNT, ("source", "target"))
    given["source"] = _path(given["source"], f"{where}.source", directory)
    with _Located(where):
        return Mount(**given)


def _texts_of(table: dict[str, Any], where: str, known: Mapping[str, str], needed: tuple[str, ...]) -> dict[str, Any]:
    """The fields of one table: texts, and lists of texts."""
    check_keys(table, known, where, "")
    for name in needed:
        if name not in table:
            raise ConfigurationError(f"{where}: {name} is missing: {known[name]}")
    given = {}
    for name, value in table.items():
        if name == "deny":
            given[name] = tuple(_texts(value, f"{where}.{name}", known[name]))
        else:
            check_type(value, str, f"{where}.{name}", known[name])
            given[name] = value
    return given


def _texts(value: Any, where: str, allowed: str) -> Iterator[str]:
    check_type(value, list, where, allowed)
    for number, text in enumerate(value):
        check_type(text, str, f"{where}[{number}]", "a text in quotes")
        yield text


def _env(table: Any, where: str) -> dict[str, str]:
    check_type(table, dict, where, "a table of texts")
    for name, value in table.items():
        check_type(value, str, f"{where}.{plain(name)}", "a text in quotes")
    return dict(table)


def _quotas(table: Any, where: str) -> Quotas:
    check_type(table, dict, f"{where}: quotas", "a table")
    check_keys(table, _QUOTAS, where, "quotas.")
    given = {name: None if value == NO_LIMIT else value for name, value in table.items()}
    for name, value in table.items():
        check_type(value, (int, float, str), f"{where}: quotas.{name}", f"a number, a size such as '512MiB' or {NO_LIMIT!r}")
    with _Located(where):
        return Quotas(**given)


def _path(path: str, where: str, directory: str | None) -> str:
    if path.startswith("~"):
        raise ConfigurationError(f"{where}: '~' is not expanded; write the whole path, or ./~ for a name that begins so")
    return path if directory is None or not path else os.path.join(directory, path)


class _Located:
    """Puts the file's name before what a record says of itself. No record shows a value of ``env``."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ConfigurationError):
            raise ConfigurationError(f"{self._where}: {error}") from error
