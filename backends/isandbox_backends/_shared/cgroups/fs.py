"""The few operations on a cgroup file system that are needed. A port, because most machines have only one of its versions:
the tests bring a simulated tree that obeys the kernel's rules.
"""

from __future__ import annotations

import os
from typing import Protocol


class CgroupFs(Protocol):
    """Paths are absolute. Every operation raises the `OSError` that the kernel gives."""

    def read(self, path: str) -> str: ...

    def write(self, path: str, text: str) -> None: ...

    def open(self, path: str, flags: int) -> int: ...

    def make(self, path: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def list(self, path: str) -> list[str]:
        """Names of the groups in a group."""
        ...

    def exists(self, path: str) -> bool: ...

    def writable(self, path: str) -> bool:
        """Whether this process, by its effective ids, may write to a file or make groups in a directory."""
        ...


class KernelFs:
    """The machine's own."""

    # The largest of the files read here, mountinfo, has a line of some 100 bytes per mount.
    _MOST = 4 << 20

    def read(self, path: str) -> str:
        fd = self.open(path, os.O_RDONLY)
        try:
            raw = bytearray()
            while len(raw) < self._MOST and (data := os.read(fd, 65_536)):
                raw += data
        finally:
            os.close(fd)
        return raw.decode("utf-8", "surrogateescape")

    def write(self, path: str, text: str) -> None:
        fd = self.open(path, os.O_WRONLY)
        try:
            os.write(fd, text.encode())  # the kernel takes a value whole or not at all
        finally:
            os.close(fd)

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC)

    def make(self, path: str) -> None:
        os.mkdir(path, 0o755)

    def remove(self, path: str) -> None:
        os.rmdir(path)

    def list(self, path: str) -> list[str]:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def writable(self, path: str) -> bool:
        return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
