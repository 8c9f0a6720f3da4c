"""A connection to the helper of a detached sandbox: of whoever made it, once it is registered, and of all others."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import TYPE_CHECKING

from isandbox.errors import SandboxClosedError, SandboxLostError
from isandbox_backends._shared.host_process import forget, log, remember
from isandbox_backends._shared.link import SEND_TIMEOUT, HelperLink, HelperStartError
from isandbox_backends._shared.portable import wait_for_end
from isandbox_backends._shared.protocol import FEATURE_FDS, PROTOCOL_VERSION, Goodbye, Hello, ProtocolError
from isandbox_backends._shared.requests import encode_shutdown

if TYPE_CHECKING:
    from isandbox_backends._shared.protocol import Decoder, Reply

_END_TIMEOUT = 2.0


class OtherVersionError(Exception):
    """The helper speaks another version of the protocol, which is in ``version``."""

    def __init__(self, version: int) -> None:
        super().__init__(f"protocol {version}, not {PROTOCOL_VERSION}")
        self.version = version


class TurnedAwayError(Exception):
    """The helper, or its doorkeeper, closed the connection without a word."""


class Connection(HelperLink):
    """``pidfd``: of the sandbox's first process ``pid``, verified by the caller; -1 and ``None`` where it cannot be seen.

    The first process is never our child, and its end never ours to reap.
    """

    _note = -1

    def __init__(self, connected: socket.socket, pid: int | None, pidfd: int) -> None:
        super().__init__(connected)
        self.pid, self._pidfd = pid, pidfd
        self._socket.settimeout(SEND_TIMEOUT)
        remember(self)

    @classmethod
    def of_creator(cls, connected: socket.socket, decoder: Decoder, hello: Hello, pid: int | None, pidfd: int) -> Connection:
        """The connection over which the sandbox was made."""
        made = cls(connected, pid, pidfd)
        made._decoder, made.hello = decoder, hello
        return made

    def receive(self) -> bool:
        """Raises `TurnedAwayError` and `OtherVersionError` too."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, 4096, 1, socket.MSG_CMSG_CLOEXEC)
            for fd in descriptors:
                self._close_note()
                self._note = fd
            for reply in self._decoder.feed(data):
                self._take(reply)
        except ConnectionResetError as error:
            raise TurnedAwayError from error
        except (OSError, ProtocolError) as error:
            raise HelperStartError(0, "the helper's answer", str(error)) from error
        if self.hello is None:
            if not data:
                raise TurnedAwayError
            return False
        if not self.hello.features & FEATURE_FDS or self._note < 0:
            raise HelperStartError(0, "the helper's answer", "came without the sandbox's note")
        return True

    def _take(self, reply: Reply) -> None:
        if isinstance(reply, Hello) and self.hello is None:
            if reply.version != PROTOCOL_VERSION:  # what follows may mean anything
                raise OtherVersionError(reply.version)
            self.hello = reply
        elif isinstance(reply, Goodbye) and self.hello is not None:
            self.take_farewell(reply)
        else:
            raise ProtocolError(f"{type(reply).__name__} out of turn")

    @property
    def number(self) -> int:
        """What the helper calls this client; 0 for whoever made the sandbox."""
        return 0 if self.hello is None else self.hello.client

    def take_note(self) -> int:
        """The descriptor that came with the hello; the caller closes it."""
        fd, self._note = self._note, -1
        return fd

    def _close_note(self) -> None:
        fd, self._note = self._note, -1
        if fd >= 0:
            os.close(fd)

    def let_go(self) -> None:
        """Close this connection, which ends the commands that were started over it but for kept ones. The sandbox lives on."""
        forget(self)
        with self._ending:
            self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._close_note()
        self._close_pidfd()
        self.pid = None

    def hang_up(self) -> int:
        """Shut the sandbox down, with everything in it, for all who use it; `reap` waits for that and lets go. Returns a pidfd
        to wait for, or -1.
        """
        with contextlib.suppress(SandboxLostError, SandboxClosedError):
            self.send(encode_shutdown())
        forget(self)
        with self._ending:
            self._closed = True
        self._socket.close()  # what has been sent is read all the same
        return self._pidfd

    def reap(self, *, timeout: float = _END_TIMEOUT) -> None:
        """After `hang_up`: wait for the first process's end, by force past ``timeout`` seconds.

        Where that process cannot be seen (its pid namespace is another one) nothing is waited for.
        """
        try:
            self._see_it_end(timeout)
        finally:
            self._close_pidfd()
            self._close_note()
            self.pid = None

    def _see_it_end(self, timeout: float) -> None:
        if self._pidfd < 0:
            return
        try:
            ended = wait_for_end(self._pidfd, timeout)
        except BaseException:  # a Ctrl-C while it ends: no patience
            _kill(self._pidfd)
            raise
        if not ended:
            _kill(self._pidfd)
            if not wait_for_end(self._pidfd, timeout):
                log.warning("the helper %s does not end; something in it is stuck in the kernel", self.pid)

    def destroy(self) -> None:
        """This connection says no more, and its commands end; the sandbox is others' too, and stays."""
        with self._ending, contextlib.suppress(OSError):
            if not self._closed:
                self._socket.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        super().abandon()
        self._close_note()

    def __del__(self) -> None:
        super().__del__()
        self._close_note()


def _kill(pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
