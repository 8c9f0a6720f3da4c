"""A probe that is no part of the shipped ones, for it mounts something on the host: what is mounted later must not come inside."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from isandbox.policy import Mount
from isandbox.testing.containment import Arena, Probe, Verdict
from isandbox.testing.containment.judge import judge

LATER = "A13-later"
_BIND, _SHARED, _DETACH = 4096, 1 << 20, 2  # of linux/mount.h
_LOOK = """
controls["it is mounted"] = opened("/mnt/place/here")
out["later"] = opened("/mnt/place/later/secret")
"""


async def _attempt(arena: Arena) -> Verdict:
    """A directory whose mounts are shared, as systemd makes all of them, is mounted in the sandbox; then a file system is mounted
    on the host below it.
    """
    if os.geteuid() != 0:
        return Verdict("VACUOUS", detail="only root can mount something on the host")
    place = arena.directory()
    place.chmod(0o755)
    (place / "here").write_text("x")
    (place / "later").mkdir()
    _mount(arena, str(place), place, None, _BIND)
    _call("mount", None, os.fsencode(place), None, _SHARED, None)
    box = await arena.create(mounts=[Mount(str(place), "/mnt/place")])
    _mount(arena, "none", place / "later", "tmpfs", 0)
    (place / "later" / "secret").write_text("x")
    out, controls = await arena.attack(_LOOK, box=box)
    return judge(out, controls)


probe = Probe(LATER, "What the host mounts later does not come inside", "filesystem", "files", _attempt)


def _mount(arena: Arena, source: str, target: Path, kind: str | None, flags: int) -> None:
    """Until the probe ends."""
    _call("mount", source.encode(), os.fsencode(target), kind.encode() if kind else None, flags, None)
    arena.stack.callback(_call, "umount2", os.fsencode(target), _DETACH)


def _call(name: str, *arguments: bytes | int | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    wide = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    if getattr(libc, name)(*wide) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
