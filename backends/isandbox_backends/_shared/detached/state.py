"""This user's state of detached sandboxes: the directory with its register and its places, open together."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from isandbox._state.directory import StateDirectory
from isandbox._state.owner import current_owner, owner_fate
from isandbox._state.places import Places
from isandbox._state.register import Register
from isandbox.errors import StateError

_LOOK = 0.002
_not_taken_back: set[tuple[str, str]] = set()

if TYPE_CHECKING:
    from isandbox._state.entry import Entry
    from isandbox._state.owner import Fate


@dataclass(frozen=True, slots=True)
class State:
    """Open it in a ``with``: the directory is closed on leaving. Raises `StateError` wherever it cannot be used."""

    directory: StateDirectory
    register: Register
    places: Places

    @classmethod
    def make(cls) -> Self:
        """Made when it is not there."""
        return cls._of(StateDirectory.make())

    @classmethod
    def open(cls) -> Self | None:
        """``None`` when nothing was ever made here."""
        directory = StateDirectory.open()
        return None if directory is None else cls._of(directory)

    @classmethod
    def _of(cls, directory: StateDirectory) -> Self:
        state = cls(directory, Register(directory), Places(directory))
        for name in [name for path, name in tuple(_not_taken_back) if path == directory.path]:
            state.take_back(name)
        return state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.directory.close()

    def take_back(self, id: str) -> None:
        """Remove the row of a start of this process that failed. Where a full disk does not let it, when the state is opened
        next: as long as this process lives the row would say that the sandbox is being made, and have its key.
        """
        _not_taken_back.add((self.directory.path, id))
        with contextlib.suppress(StateError):
            self.register.discard(id)
            _not_taken_back.discard((self.directory.path, id))

    def wait_until_free(self, id: str, timeout: float) -> bool:
        """Whether the sandbox's lock is free within ``timeout`` seconds: the last process that has it lags behind the first one."""
        until = time.monotonic() + timeout
        while self.places.is_alive(id):
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK)
        return True

    def fate(self, entry: Entry) -> Fate:
        """``alive`` is what its lock says, or what its creator is that has not finished; ``elsewhere``: it cannot be told."""
        if self.places.is_alive(entry.id):
            return "alive"
        if entry.state == "ended":
            return "dead"
        creator = owner_fate(entry.creator, current_owner())
        if entry.state == "starting":
            return creator
        # A lock that is free says that the sandbox has ended, but only to those who share the machine with it. Its creator
        # may well have ended in a pid namespace that has gone: what counts is whose machine and boot it was.
        here = current_owner()
        same_boot = bool(here.boot) and entry.creator.boot == here.boot
        return "dead" if same_boot or creator == "dead" else "elsewhere"
