"""Whose a group is, by its name; and removing those whose owner has died without doing so.

A name holds the pid namespace, the pid and the start time of the process that made it. A number alone would be another
process's one day, and in another pid namespace it is another process's already.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets

from isandbox_backends._shared.cgroups.fs import CgroupFs

_NAME = re.compile(r"isandbox-([0-9]+)-([0-9]+)-([0-9]+)-[0-9a-f]{12}\Z")


def new_name(fs: CgroupFs) -> str:
    """A name for a group of this process. Raises `OSError` without a /proc."""
    pid = os.getpid()
    return f"isandbox-{_pid_namespace()}-{pid}-{_start_time(fs, pid)}-{secrets.token_hex(6)}"


def remove_dead(fs: CgroupFs, parent: str) -> None:
    """Remove the groups in ``parent`` whose owner is dead; one in which something still runs stays. Never raises `OSError`."""
    with contextlib.suppress(OSError):
        for name in fs.list(parent):
            if _is_dead(fs, name):
                with contextlib.suppress(OSError):
                    for inner in fs.list(f"{parent}/{name}"):
                        with contextlib.suppress(FileNotFoundError):  # by another process that cleans up
                            fs.remove(f"{parent}/{name}/{inner}")
                    fs.remove(f"{parent}/{name}")


def _is_dead(fs: CgroupFs, name: str) -> bool:
    match = _NAME.match(name)
    if match is None or match[1] != _pid_namespace():
        return False
    try:
        return _start_time(fs, int(match[2])) != match[3]
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _pid_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _start_time(fs: CgroupFs, pid: int) -> str:
    """Field 22 of proc_pid_stat(5), clock ticks since boot; the name before it may hold anything but ends with the last ")"."""
    return fs.read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]
