"""The options that only the `seccomp` backend has."""

from __future__ import annotations

from dataclasses import dataclass

from isandbox.errors import ConfigurationError
from isandbox_backends._shared.holding import NativeOptions
from isandbox_backends.seccomp.profiles import PROFILE_NAMES, ProfileName


@dataclass(frozen=True, slots=True)
class SeccompOptions(NativeOptions):
    """Options of the `seccomp` backend: those of `NativeOptions`, and which system calls commands have.

    ``profile``: ``default`` refuses what programs do not need. ``debug`` lets commands trace each other as well, for gdb,
    strace and the leak sanitiser; what is outside the sandbox, and its first process, stay out of their reach. ``strict``
    is for code that only computes on files: no sockets but pairs, no locks, and of all system calls only those of a short list.
    """

    profile: ProfileName = "default"

    def __post_init__(self) -> None:
        NativeOptions.__post_init__(self)
        if self.profile not in PROFILE_NAMES:
            names = ", ".join(map(repr, PROFILE_NAMES))
            raise ConfigurationError(f"profile: one of {names}, not {self.profile!r}")
