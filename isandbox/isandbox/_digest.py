"""What was asked for, as one digest: the same options give the same one, in every process and version of Python."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from isandbox.errors import ConfigurationError
from isandbox.policy import Mount, Workspace

if TYPE_CHECKING:
    from isandbox.backend import CreateRequest

# What decides how long the caller waits and who is told, not what is made.
_NOT_PART = ("start_timeout", "on_event", "idempotency_key", "options_digest")
_FORM = "isandbox options 1"


def digest_of(backend: str, request: CreateRequest) -> str:
    """64 hexadecimal digits, keyed with the request's idempotency key: nobody without it can try values against them.

    Values of environment variables go in as digests of their own. A field that has its default is left out, so that the
    fields of later versions change nothing for those who do not use them. Relative paths are those of the working directory.
    """
    key = (request.idempotency_key or "").encode("utf-8", "surrogatepass")
    named = {name: value for name, value in _given(request).items() if name not in _NOT_PART}
    policy = request.policy
    env = {name: _keyed(key, value.encode("utf-8", "surrogatepass")) for name, value in policy.env.items()}
    named["policy"] = {**_given(policy), "env": env}
    text = json.dumps([_FORM, backend, _plain(named, "options")], sort_keys=True, separators=(",", ":"))
    return _keyed(key, text.encode())


def _keyed(key: bytes, data: bytes) -> str:
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def _given(record: Any) -> dict[str, Any]:
    """The fields of a record that differ from their defaults."""
    values = ((f, getattr(record, f.name)) for f in fields(record))
    return {f.name: value for f, value in values if not _is_default(f, value)}


def _is_default(field: Field[Any], value: object) -> bool:
    if field.default is not MISSING:
        return bool(value == field.default)
    return field.default_factory is not MISSING and bool(value == field.default_factory())


def _plain(value: object, where: str) -> Any:
    """The value in JSON's words, the same for equal values."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return int(value) if value == value // 1 else float(value)  # 60 and 60.0 are one option
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value, where)
    return _members(value, where)


def _members(value: object, where: str) -> Any:
    if isinstance(value, Mapping):
        return {"map": sorted([[_plain(k, where), _plain(v, f"{where}.{k}")] for k, v in value.items()], key=json.dumps)}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted((_plain(member, where) for member in value), key=json.dumps)}
    if isinstance(value, (list, tuple)):
        return [_plain(member, where) for member in value]
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    raise ConfigurationError(
        f"idempotency_key: {where} is a {type(value).__name__}, which cannot be compared with that of another process"
    )


def _record(value: Any, where: str) -> Any:
    given = _given(value)
    if isinstance(value, Workspace):
        given["path"] = os.path.abspath(value.path)
    if isinstance(value, Mount):
        given["source"] = os.path.abspath(value.source)
    return {type(value).__name__: {name: _plain(member, f"{where}.{name}") for name, member in given.items()}}
