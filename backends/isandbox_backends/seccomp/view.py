"""What the host has that a sandbox may see: read once, so that the mount plan can be a pure function of it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

# Programs and libraries. /usr is the whole view; the others are links into it on a merged-/usr system.
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Parts of /etc that programs need and that say nothing about the host; everything else of it is not there.
_ETC_BINDS = ("ld.so.cache", "alternatives", "ssl/certs")
# The settings of a JVM, which Debian keeps there; without them it does not start. A password file for its remote management
# would be in it too; the JVM refuses one that others than its owner can read, and nobody inside is root.
_ETC_JVM = re.compile(r"java-[0-9]+-openjdk")
_ETC_COPIES = ("ssl/openssl.cnf", "services", "protocols", "localtime")
_COPY_LIMIT = 256 << 10
# World-readable in a fresh /proc and about the host, not the sandbox; which of them there are is up to the kernel. The boot
# line is one: people put addresses and tokens into it.
_MASKED = ("kallsyms", "keys", "key-users", "interrupts", "modules", "cmdline", "sched_debug", "latency_stats")


@dataclass(frozen=True, slots=True)
class HostView:
    """``links``: top-level name -> link text. ``directories``: top-level names that are directories of their own.
    ``etc_links``, ``etc_binds``, ``etc_copies``: what there is below /etc, by relative path. ``devices``: names in /dev.
    ``masked``: files of /proc that tell about the host and are hidden.
    """

    links: tuple[tuple[str, str], ...]
    directories: tuple[str, ...]
    etc_links: tuple[tuple[str, str], ...]
    etc_binds: tuple[str, ...]
    etc_copies: tuple[tuple[str, bytes], ...]
    devices: tuple[str, ...]
    masked: tuple[str, ...]


@lru_cache(maxsize=1)
def host_view() -> HostView:
    """This host's view; what changes below /etc after the first call is seen by new processes only."""
    links, directories = [], []
    for name in _TOP:
        path = Path("/", name)
        if path.is_symlink():
            links.append((name, os.readlink(path)))
        elif path.is_dir():
            directories.append(name)
    etc = Path("/etc")
    etc_links = [(name, os.readlink(etc / name)) for name in _ETC_COPIES if (etc / name).is_symlink()]
    copies = [
        (name, (etc / name).read_bytes())
        for name in _ETC_COPIES
        if not (etc / name).is_symlink() and (etc / name).is_file() and (etc / name).stat().st_size <= _COPY_LIMIT
    ]
    jvms = [name for name in jvm_settings(os.listdir(etc)) if (etc / name).is_dir()]
    return HostView(
        links=tuple(links),
        directories=tuple(directories),
        etc_links=tuple((name, text) for name, text in etc_links if text.startswith("/usr/")),
        etc_binds=tuple(name for name in (*_ETC_BINDS, *jvms) if (etc / name).exists() and not (etc / name).is_symlink()),
        etc_copies=tuple(copies),
        devices=tuple(name for name in ("null", "zero", "full", "random", "urandom", "tty") if _is_device(name)),
        masked=tuple(name for name in _MASKED if Path("/proc", name).exists()),
    )


def jvm_settings(names: Iterable[str]) -> list[str]:
    """Those of the names in /etc that are a JVM's."""
    return sorted(name for name in names if _ETC_JVM.fullmatch(name))


def _is_device(name: str) -> bool:
    try:
        return stat.S_ISCHR(Path("/dev", name).stat().st_mode)
    except OSError:
        return False
