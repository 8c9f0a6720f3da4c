"""Files that decide about sandboxes to come, and so are not for code inside to write: policies and settings."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from isandbox.errors import ConfigurationError
from isandbox.policy.explain import rewritable_by

if TYPE_CHECKING:
    from isandbox.policy.policy import Policy

_MOST_LINKS = 40  # of Linux


def refuse_rewriting(policy: Policy, path: str, where: str) -> None:
    """Raises `ConfigurationError`, which begins with ``where``, when the policy lets code inside write to the file, or to anything on
    the way to it: what it could change would say tomorrow what that code wants.
    """
    real = replace(
        policy,
        workspace=policy.workspace and replace(policy.workspace, path=os.path.realpath(policy.workspace.path)),
        mounts=tuple(replace(mount, source=os.path.realpath(mount.source)) for mount in policy.mounts),
    )
    for place in places_on_the_way(path):
        if line := rewritable_by(real, place):
            raise ConfigurationError(
                f"{where}: {line} lets code inside write to this file, and so decide what it says the next time; make that read-only, "
                "deny the file (workspace.deny), or move it"
            )


def places_on_the_way(path: str) -> Iterator[str]:
    """Real paths of what decides where a path leads: each link, each directory that it goes into and out of again, its end."""
    here = "/" if path.startswith("/") else os.path.realpath(os.curdir)
    left, links, entered = deque(path.split("/")), 0, 0
    while left:
        name = left.popleft()
        if name == "..":
            if entered:
                yield here
            here, entered = os.path.dirname(here), max(0, entered - 1)
        elif name not in ("", "."):
            entry = os.path.join(here, name)
            target = _target(entry) if links < _MOST_LINKS else ""
            if not target:
                here, entered = entry, entered + 1
                continue
            yield entry
            links += 1
            if target.startswith("/"):
                here, entered = "/", 0
            left.extendleft(reversed(target.split("/")))
    yield here


def _target(path: str) -> str:
    """What a link leads to; empty for what is none."""
    try:
        return os.readlink(path)
    except OSError:
        return ""
