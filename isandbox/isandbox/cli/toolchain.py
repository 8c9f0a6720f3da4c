"""Which part of the host a program needs around it: its installation, its interpreter, its virtual environment.

A pure function of its arguments and the file system. It reads links and the first bytes of files; it never executes
anything: an interpreter that a project brings along is part of what nobody has reviewed.

What a project names (a link, a "#!" line, a ``pyvenv.cfg`` in the workspace) is shown only where it is an installation of
an interpreter, so that no project can ask for a directory of secrets.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isandbox.cli._places import Places, in_environment, within
from isandbox.cli._programs import MAX_SCRIPTS, base_of_venv, behind_shim, hops, interpreter, is_program, lookups

if TYPE_CHECKING:
    from isandbox.cli._host import Host
    from isandbox.policy import Mount

__all__ = ["Toolchain", "find_toolchain", "hidden_program", "on_host_path", "within"]

_STANDARD = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """``argv0``: the program's name inside. ``path``: directories inside to put before PATH. ``hidden``: a file of the host
    that the program needs and that is not shown, so that it will not be found.
    """

    argv0: str
    mounts: tuple[Mount, ...] = ()
    path: tuple[str, ...] = ()
    hidden: str | None = None


def find_toolchain(argv0: str, host: Host, workspace: str, inside: str) -> Toolchain:
    """``workspace``: real path on the host of what commands see at ``inside``, and where relative programs start."""
    return _Search(host, Places(host.homes, workspace, inside)).run(argv0)


def hidden_program(argv0: str, host: Host, workspace: str, inside: str) -> str | None:
    """Where the host has a program that is not to be seen inside without a mount; ``None`` when it is, or there is none."""
    found = argv0 if os.path.isabs(argv0) else next(lookups(argv0, host, workspace), None)
    visible = found is None or not is_program(found) or Places(host.homes, workspace, inside).visible(found)
    return None if visible else found


def on_host_path(argv0: str, host: Host, workspace: str) -> Toolchain:
    """For a backend whose commands see the host as it is: only the name is looked up."""
    found = None if "/" in argv0 else next(lookups(argv0, host, workspace), None)
    return Toolchain(found or argv0)


@dataclass(slots=True)
class _Search:
    host: Host
    places: Places
    path: list[str] = field(default_factory=list)
    hidden: str | None = None

    def run(self, argv0: str) -> Toolchain:
        name = self._relative(argv0) if "/" in argv0 else self._by_name(argv0)
        return Toolchain(name, self.places.mounts(), tuple(self.path), self.hidden)

    def _relative(self, argv0: str) -> str:
        """A program named by its path. A relative one works as it is: commands start in the workspace."""
        file = os.path.normpath(os.path.join(self.places.workspace, argv0))
        if not is_program(file):
            return argv0
        behind = behind_shim(file, self.host, self.places.workspace)
        if behind is None:
            return self._by_name(os.path.basename(file))
        name = self._show(behind, trusted=True)
        return argv0 if not os.path.isabs(argv0) and within(name, self.places.inside) else name

    def _by_name(self, argv0: str) -> str:
        file = next(lookups(argv0, self.host, self.places.workspace), None)
        if file is None:
            return argv0
        name = self._show(file, trusted=True)
        directory = os.path.dirname(name)
        if directory in _STANDARD and self.hidden is None:
            return argv0
        if self.hidden is None:
            self._prepend(directory)
        return name

    def _prepend(self, directory: str) -> None:
        if directory not in (*self.path, *_STANDARD):
            self.path.append(directory)

    def _show(self, file: str, *, trusted: bool, exactly: bool = False, depth: int = MAX_SCRIPTS) -> str:
        """Show a program with all it leads to, and return its name inside; its own when that is impossible.

        ``exactly``: somebody names it by this very path, so that it has to stand there.
        """
        names: list[str | None] = []
        chain = hops(file)
        for place, by_absolute_link in chain:
            trusted = trusted and not self.places.named_by_workspace(place)
            names.append(self.places.show(place, trusted=trusted, exactly=exactly or by_absolute_link))
            if (base := base_of_venv(place)) is not None:
                self.places.show(base, trusted=trusted, exactly=True)
        self._follow_script(chain[-1][0], trusted=trusted, depth=depth)
        return self._name(names, [place for place, _ in chain])

    def _name(self, names: list[str | None], chain: list[str]) -> str:
        """The first name from which on every link is shown; of a virtual environment only its own name will do."""
        first = len(names)
        while first and names[first - 1] is not None:
            first -= 1
        if first == len(names) or (first and in_environment(chain[0])):
            self.hidden = self.hidden or chain[0]
            return chain[0]
        return str(names[first])

    def _follow_script(self, file: str, *, trusted: bool, depth: int) -> None:
        words = interpreter(file)
        if not words or depth == 0:
            return
        if os.path.basename(words[0]) != "env" or len(words) == 1:
            if is_program(words[0]):
                self._show(words[0], trusted=trusted, exactly=True, depth=depth - 1)
            return
        self._show(words[0], trusted=trusted, exactly=True, depth=depth - 1)
        found = next(lookups(words[1], self.host, self.places.workspace), None)
        if found is not None:
            # The user's PATH names it, not the script: it can be trusted as much as any other program there.
            name = self._show(found, trusted=True, depth=depth - 1)
            self._prepend(os.path.dirname(name))
