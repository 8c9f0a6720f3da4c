"""The start of a detached sandbox's helper: one whose first process is not our child."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING

from isandbox.errors import SandboxClosedError, SandboxLostError
from isandbox_backends._shared.client import HelperClient, HelperStartError
from isandbox_backends._shared.detached.connection import Connection
from isandbox_backends._shared.detached.processes import has_our_ids, helper_of, helpers, open_helper
from isandbox_backends._shared.host_process import forget, log
from isandbox_backends._shared.protocol import Launched, ProtocolError
from isandbox_backends._shared.requests import encode_release, encode_shutdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from isandbox_backends._shared.helper import HelperProgram
    from isandbox_backends._shared.plan import Record

_END_TIMEOUT = 2.0


class DetachedStart(HelperClient):
    """As `HelperClient`, until `release` makes it a `Connection`. What it launches is known by ``id`` in its argv."""

    def __init__(self, program: HelperProgram, plan: Iterable[Record], inherited: Mapping[int, int], id: str) -> None:
        self._id = id
        super().__init__(program, plan, inherited, names=(id, "detached"))

    def _launched(self, reply: Launched) -> None:
        if self.pid is not None:
            raise HelperStartError(0, "the helper's answer", "launched twice")
        try:
            self._pidfd = os.pidfd_open(reply.pid)
        except ProcessLookupError:  # it has ended, and leaves no zombie: why is still to be read
            return
        named = helper_of(reply.pid)
        # One that is ending has no arguments any more.
        if named is None and self._ended(_END_TIMEOUT):
            self._close_pidfd()
            return
        if named is None or named.id != self._id:
            self._close_pidfd()
            raise HelperStartError(0, "the helper's answer", "names a process that is no helper")
        self.pid = reply.pid

    def release(self) -> Connection:
        """The sandbox is registered: from now on it lives on without us. Raises `SandboxLostError`."""
        hello = self.hello
        if hello is None:
            raise HelperStartError(0, "the helper's answer", "is not there yet")
        self.send(encode_release())
        connection = Connection.of_creator(self._socket, self._decoder, hello, self.pid, self._pidfd)
        self._pidfd = -1
        forget(self)
        return connection

    def stop(self) -> None:
        """From another thread: whoever waits for the start is told that the helper has ended."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(0)  # SHUT_RD

    def give_up(self) -> None:
        if self._closed:
            return
        with contextlib.suppress(SandboxLostError, SandboxClosedError):
            self.send(encode_shutdown())  # also where RELEASE has been sent by then
        with contextlib.suppress(OSError):
            self._socket.shutdown(1)  # SHUT_WR
        self._reap_launcher(_END_TIMEOUT)
        with contextlib.suppress(OSError, ProtocolError, HelperStartError):
            self._hear_the_end(time.monotonic() + _END_TIMEOUT)
        self.hang_up()
        self.reap()

    def _hear_the_end(self, deadline: float) -> None:
        """Until all that has the other end of the socket has ended; on the way, what the first process is."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        self._socket.setblocking(False)
        while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            data = self._socket.recv(4096)
            if not data:
                return
            for reply in self._decoder.feed(data):
                if isinstance(reply, Launched):
                    with contextlib.suppress(OSError):
                        self._launched(reply)

    def reap(self, *, timeout: float = _END_TIMEOUT) -> None:
        self._reap_launcher(timeout)
        try:
            if self._pidfd >= 0 and not self._ended(timeout):
                self._kill(signal.SIGKILL)
                if not self._ended(timeout):
                    log.warning("the helper %s does not end; something in it is stuck in the kernel", self.pid)
        finally:
            self._close_pidfd()
            self.pid = None
            self._end_nameless()

    def _end_nameless(self) -> None:
        """What has not said yet which process it is: one that waits for a mount source on a dead file server."""
        for found in helpers():
            if found.id == self._id and (fd := open_helper(found)) is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    if has_our_ids(found):
                        signal.pidfd_send_signal(fd, signal.SIGKILL)
                os.close(fd)
