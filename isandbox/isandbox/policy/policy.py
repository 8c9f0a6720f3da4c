"""The frozen policy of one sandbox: everything that decides what code inside may touch and use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from isandbox._text import encoded, plain, shown
from isandbox.errors import ConfigurationError
from isandbox.policy.mounts import Mount, Workspace, check_list, check_path, check_texts
from isandbox.policy.quotas import Quotas

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from isandbox.policy.explain import Explanation, Operation

# An environment of the kernel's own limit for argv and environment together would leave no room for a command.
_ENV_LIMIT = 1 << 20
# Linux: MAX_ARG_STRLEN. "NAME=value" and its NUL are one string to the kernel; a longer one cannot be passed at all.
_ENV_ELEMENT_LIMIT = 131_072


def check_env(env: Mapping[str, str]) -> Mapping[str, str]:
    """An environment that every program reads back as it was given.

    Raises `ConfigurationError` for a name that is empty or holds ``=``, NUL, a newline or white space at its ends, a value
    with NUL, a name and value of 128 KiB or more, and for more than 1 MiB in all. The value itself never stands in the message.
    """
    if not isinstance(env, Mapping):
        raise ConfigurationError(f"env: a mapping of names to values, not {type(env).__name__}")
    total = 0
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigurationError(f"env: names and values are texts; {shown(name)} is not so")
        if not name or name != name.strip() or any(c in name for c in "=\0\n\r"):
            raise ConfigurationError(f"env: {name!r} is not a name (empty, '=', NUL, newline or outer white space)")
        if "\0" in value:
            raise ConfigurationError(f"env: the value of {plain(name)} holds a NUL character")
        size = len(encoded(name, "env: a name")) + len(encoded(value, f"env: the value of {plain(name)}")) + 2
        if size > _ENV_ELEMENT_LIMIT:
            raise ConfigurationError(
                f"env: {plain(name)} has {size} bytes with its value; the kernel takes at most {_ENV_ELEMENT_LIMIT}. Write it to a file"
            )
        total += size
    if total > _ENV_LIMIT:
        raise ConfigurationError(f"env: {total} bytes in all are over the limit of {_ENV_LIMIT}")
    return MappingProxyType(dict(env))


@dataclass(frozen=True, slots=True)
class Policy:
    """What a sandbox may see, reach and use. Fixed when it is created; nothing inside can change it.

    ``network``: ``None`` is the backend's own default (none, wherever there is isolation), an empty tuple demands none.
    ``waive`` names mechanisms or quotas that may be missing (``{"landlock", "disk"}``): the one
    way to run with less, recorded in the sandbox's `info`.
    """

    workspace: Workspace | None = None
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    network: tuple[str, ...] | None = None
    quotas: Quotas = field(default_factory=Quotas)
    waive: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "env", check_env(self.env))
        object.__setattr__(self, "mounts", check_list(self.mounts, "mounts", "Mount records"))
        if self.network is not None:
            object.__setattr__(self, "network", check_texts(self.network, "network", "hosts"))
        object.__setattr__(self, "waive", frozenset(check_texts(self.waive, "waive", "names")))
        for name, value, kind in (("workspace", self.workspace, Workspace), ("quotas", self.quotas, Quotas)):
            if not isinstance(value, kind) and (value is not None or kind is Quotas):
                raise ConfigurationError(f"{name}: a {kind.__name__} record, not {type(value).__name__}")
        seen: dict[str, str] = {}
        for mount in self.mounts:
            if not isinstance(mount, Mount):
                raise ConfigurationError(f"mounts: Mount records, not {shown(mount)}")
            if mount.target in seen:
                first, second = sorted((seen[mount.target], mount.source))
                raise ConfigurationError(f"mounts: two mounts at {plain(mount.target)}: {plain(first)} and {plain(second)}")
            seen[mount.target] = mount.source

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """The policy in a TOML file: the fields of this record under their own names.

        The tables are ``[workspace]``, ``[[mounts]]``, ``[env]`` and ``[quotas]``, where ``"none"`` is no limit. Relative paths begin at
        the file's directory. A path that begins with ``~`` is refused, and so is any key that is not known. The file is a regular
        one of at most 2 MiB. Raises `ConfigurationError` with the file, the key and what is allowed; never with a value of ``env``.
        """
        from isandbox.policy.text import load

        return load(path)

    @classmethod
    def loads(cls, text: str) -> Policy:
        """The same from a text. Relative paths stay as they are, and so begin at the current directory."""
        from isandbox._toml import parse
        from isandbox.policy.text import build

        if not isinstance(text, str):
            raise ConfigurationError(f"policy: a text of TOML, not {type(text).__name__}")
        return build(parse(text, "policy"), "policy", None)

    def to_toml(self) -> str:
        """A text from which `loads` makes an equal policy. It holds the values of ``env``: treat it as a secret if they are.

        Raises `ConfigurationError` for what TOML cannot hold (bytes that are not UTF-8), and for a path that begins with ``~``.
        """
        from isandbox.policy.writing import to_toml

        return to_toml(self)

    def explain(self, operation: Operation, target: str) -> Explanation:
        """Whether this policy lets a command do something, and by which of its lines. Nothing is looked up.

        ``"read"`` and ``"write"`` take a path as commands see it where a backend has a mount view of its own: absolute, or relative
        to the workspace at ``/workspace``; links are not followed. ``"connect"`` takes a host, or ``host:port``. Whether a
        backend can hold the line is in its capability record. Raises `ConfigurationError` for another operation.
        """
        from isandbox.policy.explain import explain

        return explain(self, operation, target)

    def __reduce__(self) -> tuple[object, ...]:
        env = dict(self.env)
        return (Policy, (self.workspace, self.mounts, env, self.network, self.quotas, self.waive))


def as_workspace(value: Workspace | str | os.PathLike[str] | None) -> Workspace | None:
    """A `Workspace` from what a caller may write: a record, a path (read-write), or nothing."""
    if value is None or isinstance(value, Workspace):
        return value
    return Workspace(check_path(value, "workspace"))


def as_mounts(values: Iterable[Mount]) -> tuple[Mount, ...]:
    return check_list(values, "mounts", "Mount records")
