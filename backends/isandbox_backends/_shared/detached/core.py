"""What both interfaces share of a detached sandbox: `Core`, where ending the handle and ending the sandbox are two things."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from isandbox._state.entry import Resources
from isandbox.errors import StateError
from isandbox_backends._shared.core import Core
from isandbox_backends._shared.detached.connection import Connection
from isandbox_backends._shared.detached.groups import leave
from isandbox_backends._shared.detached.removal import finish
from isandbox_backends._shared.detached.state import State
from isandbox_backends._shared.host_process import log

_END = 2.0


@dataclass(slots=True, eq=False)
class DetachedCore(Core):
    """``resources``: what is removed when the sandbox is destroyed, from the register."""

    resources: Resources = field(default_factory=Resources)
    handed: bool = False
    """Somebody has a handle on it. Until then a Ctrl-C may come anywhere, and nobody else would ever close this."""

    def close(self) -> None:
        """The call that made it was cancelled: nobody has the handle, or was told of the sandbox."""
        self.on_event = None
        self.destroy()

    def takes_time(self) -> bool:
        return True  # the register is written

    def let_go(self) -> None:
        if self._release():
            self.emit("detached")

    def _release(self) -> bool:
        if self.client.closed:  # as in `Core.hang_up`
            return False
        with self._lock:
            if self.client.closed:
                return False
            if isinstance(self.client, Connection):  # before that its maker has it, who gives it up
                self.client.let_go()
        if self.group is not None:
            leave(self.group)
        return True

    def end(self) -> None:
        self.let_go()

    def clean_up(self) -> None:
        try:
            self.client.reap()
        finally:
            try:
                self._remove()
            except BaseException:  # a Ctrl-C: once more, to the end
                self._remove()
                raise
            finally:
                self.emit("closed")

    def _remove(self) -> None:
        try:
            state = State.open()
            if state is not None:
                with state:
                    state.wait_until_free(self.info.id, _END)
                    finish(state, self.info.id, self.resources)
        except StateError as error:  # close ends in "gone" also when a part of it fails
            log.warning("sandbox %s: its state could not be removed: %s", self.info.id, error)

    def renewed(self, answer: bytes, seconds: float) -> None:
        """The register is for the list, which is an estimate: where it cannot be written the sandbox lives longer all the same."""
        self.status(answer)
        try:
            state = State.open()
            if state is not None:
                with state:
                    state.register.renewed(self.info.id, seconds)
        except StateError as error:
            log.warning("sandbox %s lives for %g s more; the list does not know: %s", self.info.id, seconds, error)

    def __del__(self) -> None:
        if not self.handed:
            self.close()
        elif not self.client.closed:
            try:
                message = f"the handle on sandbox {self.info.id} was never closed or detached"
                warnings.warn(message, ResourceWarning, source=self, stacklevel=2)
            finally:
                self._release()


class SharedCore(DetachedCore):
    """Others have it too, or ask for it again under its key: a call that is cancelled lets go of it, and the sandbox stays."""

    __slots__ = ()

    def close(self) -> None:
        self.on_event = None
        self.let_go()
