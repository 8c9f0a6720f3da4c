"""A `Policy` as TOML, from which `text` makes an equal one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from isandbox._text import plain
from isandbox._toml import key_literal, text_literal
from isandbox.errors import ConfigurationError
from isandbox.policy.policy import Policy
from isandbox.policy.quotas import Quotas
from isandbox.policy.text import NO_LIMIT


def to_toml(policy: Policy) -> str:
    """`Policy.to_toml`."""
    return "\n".join("\n".join(lines) + "\n" for lines in _sections(policy) if lines)


def _sections(policy: Policy) -> Iterator[list[str]]:
    # Keys of the document itself come first: behind a table they would belong to it.
    top = []
    if policy.network is not None:
        top.append(f"network = {_list(policy.network, 'network')}")
    if policy.waive:
        top.append(f"waive = {_list(sorted(policy.waive), 'waive')}")
    yield top
    if (workspace := policy.workspace) is not None:
        path, mode = _written_path(workspace.path, "workspace.path"), text_literal(workspace.mode, "workspace.mode")
        deny = [f"deny = {_list(workspace.deny, 'workspace.deny')}"] if workspace.deny else []
        yield ["[workspace]", f"path = {path}", f"mode = {mode}", *deny]
    for number, mount in enumerate(policy.mounts):
        source = _written_path(mount.source, f"mounts[{number}].source")
        target = text_literal(mount.target, f"mounts[{number}].target")
        mode = text_literal(mount.mode, f"mounts[{number}].mode")
        yield ["[[mounts]]", f"source = {source}", f"target = {target}", f"mode = {mode}"]
    if policy.env:
        rows = [f"{key_literal(n, 'env')} = {text_literal(v, f'env.{plain(n)}')}" for n, v in policy.env.items()]
        yield ["[env]", *rows]
    if rows := list(_quota_rows(policy.quotas)):
        yield ["[quotas]", *rows]


def _quota_rows(quotas: Quotas) -> Iterator[str]:
    """What differs from the defaults; the default's own number when it was asked for."""
    unset, asked = Quotas(), quotas.asked()
    for name in (field.name for field in fields(Quotas)):
        value = getattr(quotas, name)
        if name in asked:
            # Of a number's subclass (an enumeration, another library's) the form is its own.
            yield f"{name} = {int(value)!r}" if isinstance(value, int) else f"{name} = {float(value)!r}"
        elif value is None and getattr(unset, name) is not None:
            yield f'{name} = "{NO_LIMIT}"'


def _list(texts: Iterable[str], where: str) -> str:
    return "[" + ", ".join(text_literal(text, where) for text in texts) + "]"


def _written_path(path: str, where: str) -> str:
    if path.startswith("~"):
        raise ConfigurationError(f"{where}: {plain(path)} begins with '~', which is not expanded; make it absolute")
    return text_literal(path, where)
