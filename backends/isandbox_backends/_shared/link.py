"""What sends frames to a helper, whoever started it: one that this process made, or one that it is connected to."""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING

from isandbox._text import plain
from isandbox.errors import SandboxClosedError, SandboxLostError
from isandbox_backends._shared.protocol import NO_METERS, Decoder, Farewell, Goodbye, Hello, ProtocolError, StartFlag
from isandbox_backends._shared.requests import (
    encode_ask,
    encode_kill,
    encode_resize,
    encode_signal,
    encode_start,
    encode_stdin_eof,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from isandbox_backends._shared.cgroups import CommandGroup
    from isandbox_backends._shared.protocol import Question
    from isandbox_backends._shared.requests import Relaying

# A helper that does not read its socket for this long is lost; it never blocks on a command's account.
SEND_TIMEOUT = 5.0
_FAREWELLS = {
    Farewell.SHUTDOWN: "somebody else has closed it",
    Farewell.LIFETIME: "its lifetime has ended",
    Farewell.IDLE_TIMEOUT: "nobody used it for the time of its idle_timeout",
}


class HelperStartError(Exception):
    """The helper could not do its plan. ``stage`` and ``subject`` are its words, ``errno`` the kernel's."""

    def __init__(self, errno: int, stage: str, subject: str) -> None:
        self.errno, self.stage, self.subject = errno, stage, subject
        what = f"{stage} {plain(subject)}".strip() if subject else stage
        super().__init__(f"{what}: {os.strerror(errno)}" if errno else what)


class HelperLink(ABC):
    """One control connection to a helper. The methods that send may be called from any thread."""

    _pidfd = -1

    def __init__(self, connected: socket.socket) -> None:
        self.hello: Hello | None = None
        self.pid: int | None = None
        """The sandbox's first process, while it is known to be that one."""
        self._socket = connected
        self._decoder = Decoder()
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._next_id = 0
        self._closed = False
        self._farewell: str | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def closed(self) -> bool:
        return self._closed

    @abstractmethod
    def receive(self) -> bool:
        """Read what there is of the helper's first answer; true when it is ready. Raises `HelperStartError`."""

    @abstractmethod
    def destroy(self) -> None:
        """Nothing more is asked of a helper that is not believed any further, and no command of this connection goes on."""

    @abstractmethod
    def hang_up(self) -> int:
        """End the sandbox with everything in it, and close this. Returns a pidfd to wait for, or -1; `reap` follows."""

    @abstractmethod
    def reap(self) -> None:
        """After `hang_up`: wait for the end of the first process, for some seconds by force, and let go of it."""

    def wait_ready(self, deadline: float) -> None:
        """Blocking: until the helper is ready. Raises `HelperStartError`, also past ``deadline`` (monotonic seconds)."""
        while not self._heard(deadline):
            pass

    def _heard(self, deadline: float) -> bool:
        """Wait for news; true when the helper is ready."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise HelperStartError(0, "no answer", "in the time that a start may take")
        return self.receive()

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
        relay: Relaying | None = None,
    ) -> None:
        """Send START with the command's descriptors (order: protocol.h). ``group``: the control group that it joins.
        ``relay``: what the helper is to do with the output of a command that it reads itself.
        """
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
            **({} if relay is None else asdict(relay)),
        )
        self.send(frame, descriptors)

    def send(self, frame: bytes, descriptors: Sequence[int] = ()) -> None:
        """One whole frame, with its descriptors. Raises `SandboxLostError`, `SandboxClosedError`."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
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

    def ask(self, what: Question, pair: tuple[socket.socket, socket.socket], *, id: int = 0, value: int = 0) -> None:
        """Send a question; the answer is to be read from the first of ``pair`` to its end, and the second is closed. Raises as
        `send`.
        """
        with pair[1] as theirs:
            self.send(encode_ask(what, id=id, value=value), [theirs.fileno()])

    def kill(self, id: int, fault: str) -> None:
        """End every process of a command. Nothing happens when the helper is gone: so are they."""
        self._tell(encode_kill(id, fault))

    def signal(self, id: int, number: int) -> None:
        self._tell(encode_signal(id, number))

    def resize(self, id: int, rows: int, columns: int) -> None:
        self._tell(encode_resize(id, rows, columns))

    def stdin_eof(self, id: int) -> None:
        """What a relayed command's stdin pipe holds is the last of its input."""
        self._tell(encode_stdin_eof(id))

    def _tell(self, frame: bytes) -> None:
        with contextlib.suppress(SandboxLostError, SandboxClosedError):
            self.send(frame)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        if self._closed:
            raise SandboxClosedError("the sandbox is closed")
        try:
            yield
        except OSError as error:
            if self._closed:  # by another thread, in the middle of this call
                raise SandboxClosedError("the sandbox is closed") from error
            why = self._hear_farewell() or "its first process does not answer"
            self.destroy()  # half a frame may have been sent: what follows it would be read as its rest
            raise SandboxLostError(f"the sandbox is gone: {why}") from error

    def ended(self) -> str | None:
        """Why the helper is gone, in words; ``None`` while it has not closed its end of the connection."""
        poll = select.poll()
        with self._lock, contextlib.suppress(OSError, ValueError):  # closed meanwhile
            poll.register(self._socket, 0)  # POLLHUP is always told
            if poll.poll(0):
                return self._hear_farewell() or "its first process has ended"
        return None

    def farewell(self) -> str | None:
        """Why the helper has ended of its own accord, in words, when it has and said so."""
        with self._lock:
            return self._hear_farewell()

    def _hear_farewell(self) -> str | None:
        with contextlib.suppress(OSError, ProtocolError):
            # Not by the socket object, which waits for SEND_TIMEOUT.
            while self._farewell is None and not self._closed and (data := os.read(self._socket.fileno(), 4096)):
                for reply in self._decoder.feed(data):
                    if not isinstance(reply, Goodbye):  # a helper that talks on and on would be listened to for ever
                        raise ProtocolError(f"{type(reply).__name__} after the hello")
                    self.take_farewell(reply)
        return self._farewell

    def take_farewell(self, reply: Goodbye) -> None:
        self._farewell = _FAREWELLS[reply.reason]

    def abandon(self) -> None:
        """In a forked child: give up the copies of the descriptors. The parent's helper is not told."""
        self._lock, self._ending = threading.Lock(), threading.Lock()  # another thread of the parent may have held them
        self._closed = True
        self._socket.close()
        self._close_pidfd()

    def _close_pidfd(self) -> None:
        fd, self._pidfd = self._pidfd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        # A link that was dropped: the socket closes itself, this is an int.
        self._close_pidfd()
