"""Finding programs by reading: PATH, pyenv's shims, links, ``pyvenv.cfg``, "#!" lines."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isandbox.cli._host import Host

MAX_SCRIPTS = 4  # Linux: how many scripts may be each other's interpreter
_MAX_LINKS = 40  # Linux: MAXSYMLINKS
_HEAD = 256  # Linux: BINPRM_BUF_SIZE, all that it reads of a "#!" line
_CFG_LIMIT = 16_384
# pip writes this for an interpreter whose path is too long, or has a space, for a "#!" line.
_LONG_SHEBANG = re.compile(rb"""\A#!/bin/sh\n'''exec' "?(/[^"\n]+?)"? "\$0" """)


def is_program(path: str) -> bool:
    """A regular file, links followed, that somebody may execute."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def lookups(name: str, host: Host, directory: str) -> Iterator[str]:
    """Programs of this name on the host's PATH, best first; a pyenv shim stands for the program that it would run.

    Relative entries are left out: what they name would depend on where one stands. A shim for which pyenv has no program
    comes as itself.
    """
    for entry in host.path.split(":"):
        file = os.path.normpath(os.path.join(entry, name))
        if os.path.isabs(entry) and is_program(file):
            program = behind_shim(file, host, directory)
            if program is not None:
                yield program


def behind_shim(file: str, host: Host, directory: str) -> str | None:
    """The program that a pyenv shim would run in ``directory``; ``None`` for the system's. Any other file as it is."""
    shims, name = os.path.split(file)
    root = _pyenv_root(host)
    if os.path.realpath(shims) != os.path.realpath(os.path.join(root, "shims")):
        return file
    for version in _pyenv_versions(host, directory):
        if version == "system":
            return None
        chosen = os.path.join(root, "versions", version, "bin", name)
        if is_program(chosen):
            return chosen
    return file


def hops(path: str) -> list[tuple[str, bool]]:
    """``path`` and what its links lead to, one by one; with each, whether an absolute link names it."""
    found = [(path, False)]
    for _ in range(_MAX_LINKS):
        here = found[-1][0]
        try:
            text = os.readlink(here)
        except OSError:
            break
        directory = os.path.dirname(here)
        named = os.path.normpath(os.path.join(directory, text))
        # ".." starts at the real directory. Where that makes no difference, the name as it was found is kept.
        meant = os.path.normpath(os.path.join(os.path.realpath(directory), text))
        same = os.path.realpath(named) == os.path.realpath(meant)
        found.append((named if same else meant, os.path.isabs(text)))
    return found


def base_of_venv(program: str) -> str | None:
    """For a program of a virtual environment, the interpreter that the environment was made from."""
    directory, name = os.path.split(program)
    for place in (directory, os.path.dirname(directory)):
        for line in _read(os.path.join(place, "pyvenv.cfg"), _CFG_LIMIT).decode("utf-8", "replace").splitlines():
            key, equals, value = line.partition("=")
            home = value.strip()
            if equals and key.strip().lower() == "home" and os.path.isabs(home):
                wanted = os.path.join(home, name)
                return wanted if is_program(wanted) else os.path.join(home, "python3")
    return None


def interpreter(file: str) -> tuple[str, ...]:
    """The program of a "#!" line; with env, env and the program that it looks for. Empty for what is no script."""
    head = _read(file, 4096)
    if match := _LONG_SHEBANG.match(head):
        return (os.fsdecode(match[1]),)
    if not head.startswith(b"#!"):
        return ()
    words = os.fsdecode(head[2:_HEAD].split(b"\n", 1)[0]).split()
    if not words or not os.path.isabs(words[0]):
        return ()
    if os.path.basename(words[0]) != "env":
        return (words[0],)
    wanted = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return (words[0], wanted[0]) if wanted and "/" not in wanted[0] else (words[0],)


def _pyenv_root(host: Host) -> str:
    home = host.env.get("HOME") or (host.homes[0] if host.homes else "/nonexistent")
    return host.env.get("PYENV_ROOT") or os.path.join(home, ".pyenv")


def _pyenv_versions(host: Host, directory: str) -> list[str]:
    """As pyenv chooses: PYENV_VERSION, the nearest .python-version, the global version; "system" when nothing says."""
    named = host.env.get("PYENV_VERSION", "").split(":")
    place = directory
    while not any(named):
        named = _version_file(os.path.join(place, ".python-version"))
        if place == os.path.dirname(place):
            break
        place = os.path.dirname(place)
    root = _pyenv_root(host)
    named = [name for name in named if name] or _version_file(os.path.join(root, "version")) or ["system"]
    return [_installed(os.path.join(root, "versions"), name) for name in named if _is_name(name)]


def _version_file(path: str) -> list[str]:
    lines = _read(path, _CFG_LIMIT).decode("utf-8", "replace").splitlines()
    return [word for line in lines for word in line.partition("#")[0].replace(":", " ").split()]


def _is_name(version: str) -> bool:
    """A project writes .python-version: a name below pyenv's versions and nothing else."""
    return not version.startswith(("/", "-")) and ".." not in version.split("/") and "\0" not in version


def _installed(versions: str, name: str) -> str:
    """``name``, or the latest installed version that it is the beginning of: 3.12 means 3.12.4."""
    if name == "system" or os.path.isdir(os.path.join(versions, name)):
        return name
    try:
        fitting = [entry for entry in os.listdir(versions) if entry.startswith(name + ".")]
    except OSError:
        return name
    return max(fitting, key=lambda entry: [int(part) for part in re.findall(r"\d+", entry)], default=name)


def _read(path: str, limit: int) -> bytes:
    """The beginning of a regular file; nothing for anything else. A fifo that a project left there must not block."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(fd, limit) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(fd)
