"""What sends frames to a helper, whoever started it: the one that this process made, or one that it is connected to."""

from __future__ import annotations

import array
import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from isandbox.errors import SandboxClosedError, SandboxLostError
from isandbox_backends._shared.protocol import NO_METERS, StartFlag, encode_kill, encode_signal, encode_start

if TYPE_CHECKING:
    from isandbox_backends._shared.cgroups import CommandGroup
    from isandbox_backends._shared.protocol import Decoder, Hello


class HelperLink(ABC):
    """One control connection to a helper. The methods that send may be called from any thread."""

    _socket: socket.socket
    _decoder: Decoder
    pid: int | None
    """The sandbox's first process, while it is known to be there."""
    hello: Hello | None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._next_id = 0
        self._closed = False
        self._pidfd = -1

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def closed(self) -> bool:
        return self._closed

    @abstractmethod
    def destroy(self) -> None:
        """What the helper says or does is not believed any further: nothing more is asked of it, and no command of ours goes on."""

    def new_id(self) -> int:
        """For `start`: known before anything is sent, so that whatever has been started can be ended."""
        with self._lock:
            self._next_id = self._next_id % 0xFFFFFFFE + 1
            return self._next_id

    def start(
        self,
        id: int,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        descriptors: Sequence[int],
        *,
        flags: StartFlag,
        timeout: float | None,
        operation: int = 0,
        group: CommandGroup | None = None,
    ) -> None:
        """Send START with the command's descriptors (order: protocol.h). ``group``: the control group that it joins."""
        frame = encode_start(
            id,
            argv,
            env,
            cwd,
            flags=flags,
            timeout=timeout,
            descriptors=len(descriptors),
            operation=operation,
            joins=len(group.joins) if group else 0,
            meters=group.meters if group else NO_METERS,
        )
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        with self._lock, self._errors():
            sent = self._socket.sendmsg([frame], rights)
            if sent < len(frame):
                self._send_rest(memoryview(frame)[sent:])

    def _send_rest(self, data: memoryview) -> None:
        try:
            self._socket.sendall(data)
        except BaseException:  # also a Ctrl-C: what follows half a frame would be read as its rest
            self.destroy()
            raise

    def kill(self, id: int, fault: str) -> None:
        """End every process of a command. Nothing happens when the helper is gone: so are they."""
        self._tell(encode_kill(id, fault))

    def signal(self, id: int, number: int) -> None:
        self._tell(encode_signal(id, number))

    def _tell(self, frame: bytes) -> None:
        with self._lock, contextlib.suppress(SandboxLostError, SandboxClosedError), self._errors():
            self._socket.sendall(frame)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        if self._closed:
            raise SandboxClosedError("the sandbox is closed")
        try:
            yield
        except OSError as error:
            if self._closed:  # by another thread, in the middle of this call
                raise SandboxClosedError("the sandbox is closed") from error
            self.destroy()  # half a frame may have been sent: what follows it would be read as its rest
            raise SandboxLostError("the sandbox is gone: its first process does not answer") from error
