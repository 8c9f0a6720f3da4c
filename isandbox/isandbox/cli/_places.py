"""Where a file of the host stands inside, and which mounts bring it there."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, field

from isandbox.policy import Mount

# What every sandbox with the host's programs shows anyway.
_VISIBLE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives")
# Never shown on a program's account.
_NEVER = ("/etc", "/proc", "/sys", "/dev", "/boot")
_HOMES_OF_USERS = ("/home", "/Users", "/root")
# Its packages need each other, and hold nothing of a user's.
_NIX = "/nix/store"
_MAX_LINKS = 40  # Linux: MAXSYMLINKS
_INSTALLATIONS = (
    "pyvenv.cfg",
    "lib/python[23]*/os.py",
    "lib64/python[23]*/os.py",
    "lib/node_modules/npm",
    "include/node/node.h",
    "lib/ruby/*",
    "lib/perl5/*",
)


def within(path: str, directory: str) -> bool:
    """Whether ``path`` is ``directory`` or below it; both absolute and normal."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def in_environment(program: str) -> bool:
    """Whether a program belongs to a Python virtual environment."""
    directory = os.path.dirname(program)
    return any(os.path.isfile(os.path.join(place, "pyvenv.cfg")) for place in (directory, os.path.dirname(directory)))


@dataclass(slots=True)
class Places:
    """Collects mounts: ``homes`` real paths that are never shown, ``workspace`` the host's real path of ``inside``."""

    homes: tuple[str, ...]
    workspace: str
    inside: str
    _sources: dict[str, str] = field(default_factory=dict)
    """Target -> source."""

    def named_by_workspace(self, file: str) -> bool:
        """Whether the workspace has a say in what this path means: it lies there, or a link on its way does."""
        return within(file, self.workspace) or _passes(os.path.dirname(file), self.workspace)

    def visible(self, file: str) -> bool:
        """Whether it is inside without any mount, if perhaps under another name."""
        return any(within(file, tree) for tree in _VISIBLE) or within(_real_place(file), self.workspace)

    def show(self, file: str, *, trusted: bool, exactly: bool) -> str | None:
        """The path of ``file`` inside, ``None`` when it cannot be shown.

        ``trusted``: the user named it, not a file of the workspace. ``exactly``: only under its own path.
        """
        if any(within(file, tree) for tree in _VISIBLE):
            return file
        place = _real_place(file)
        if within(place, self.workspace):
            inside = os.path.normpath(os.path.join(self.inside, os.path.relpath(place, self.workspace)))
            # What installs itself writes absolute paths (a venv's "#!" lines, links, editable installs): the workspace also
            # stands where they look for it. That shows nothing that is not to be seen anyway.
            if (exactly or in_environment(file)) and inside != file and within(file, self.workspace):
                exact = self._mount(self.workspace, file)
                return exact if exactly else inside
            if not exactly or inside == file:
                return inside
        elif within(file, self.workspace):
            file = place  # a link in the workspace leads out of it: inside, only the real path is sure to be the same
        if within(file, _NIX):
            return self._mount(_NIX, file)
        return self._with_installation(file, trusted=trusted)

    def _with_installation(self, file: str, *, trusted: bool) -> str | None:
        """``<prefix>/bin/<program>`` with its prefix, anything else alone."""
        directory = os.path.dirname(file)
        if os.path.basename(directory) not in ("bin", "sbin"):
            return self._alone(file, trusted=trusted)
        prefix = os.path.dirname(directory)
        if self._forbidden(prefix) or not (trusted or self._is_known(prefix)):
            return None
        return self._alone(file, trusted=trusted) if self._wide(prefix) else self._mount(prefix, file)

    def mounts(self) -> tuple[Mount, ...]:
        """Read-only, the outermost only: what is below another one is there already."""
        targets = sorted(self._sources)
        outer = [t for t in targets if not any(t != other and within(t, other) for other in targets)]
        return tuple(Mount(self._sources[target], target) for target in outer)

    def _alone(self, file: str, *, trusted: bool) -> str | None:
        """One file, where what is around it is none of the program's business (~/.local, ~/.cargo, /opt)."""
        if not trusted or any(within(place, tree) for place in (file, os.path.realpath(file)) for tree in _NEVER):
            return None
        return self._mount(file, file) if os.path.isfile(file) else None

    def _mount(self, place: str, file: str) -> str | None:
        if within(place, self.inside) or within(self.inside, place):
            return None  # the workspace stands there
        if any(within(place, tree) for tree in (*_NEVER, *_VISIBLE)):
            return None  # what stands there is the sandbox's own
        # Inside, /var/tmp is a link to /tmp, and nothing can be mounted through a link.
        target = place.removeprefix("/var") if within(place, "/var/tmp") else place  # noqa: S108
        self._sources[target] = os.path.realpath(place)
        return file

    def _forbidden(self, prefix: str) -> bool:
        for place in (prefix, os.path.realpath(prefix)):
            if any(within(place, tree) for tree in _NEVER) or any(within(home, place) for home in self.homes):
                return True
            if place == "/" or place in _HOMES_OF_USERS or os.path.dirname(place) in _HOMES_OF_USERS[:-1]:
                return True
        return False

    def _is_known(self, prefix: str) -> bool:
        """What a project may name: a part of itself, and installations of interpreters."""
        return within(os.path.realpath(prefix), self.workspace) or _is_installation(prefix)

    def _wide(self, prefix: str) -> bool:
        """Directories that hold more than one program's installation: /opt, and what programs keep hidden in a home."""
        places = (prefix, os.path.realpath(prefix))
        if any(os.path.dirname(p) in self.homes and os.path.basename(p).startswith(".") for p in places):
            return not os.path.isfile(os.path.join(prefix, "pyvenv.cfg"))
        return any(os.path.dirname(p) == "/" for p in places) and not _is_installation(prefix)


def _real_place(file: str) -> str:
    """``file`` with the links of its directory resolved, and its own left alone."""
    directory, name = os.path.split(file)
    return os.path.join(os.path.realpath(directory), name)


def _passes(path: str, directory: str) -> bool:
    """Whether resolving ``path`` leads through ``directory``, by any of its links."""
    here, left, links = "/", path.split("/"), 0
    while left and links < _MAX_LINKS:
        name = left.pop(0)
        here = os.path.normpath(os.path.join(here, name))
        if within(here, directory):
            return True
        if os.path.islink(here):
            links += 1
            text = os.readlink(here)
            left = [*text.split("/"), *left]
            here = "/" if text.startswith("/") else os.path.dirname(here)
    return bool(left)


def _is_installation(prefix: str) -> bool:
    return any(glob.glob(os.path.join(glob.escape(prefix), pattern)) for pattern in _INSTALLATIONS)
