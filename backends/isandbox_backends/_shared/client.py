"""The host's end of one helper: start it with a plan, speak the protocol, end it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Iterable, Mapping

from isandbox_backends._shared.helper import HelperProgram
from isandbox_backends._shared.host_process import forget, log, remember
from isandbox_backends._shared.link import SEND_TIMEOUT, HelperLink, HelperStartError
from isandbox_backends._shared.plan import Record, encode_plan
from isandbox_backends._shared.portable import open_process
from isandbox_backends._shared.protocol import (
    FEATURE_FDS,
    PROTOCOL_VERSION,
    Hello,
    Launched,
    ProtocolError,
    Reply,
    StartFailed,
)
from isandbox_backends._shared.spawn import NOTHING, collect, ended_within, spawn

__all__ = ["HelperClient", "HelperStartError"]

_END_TIMEOUT = 2.0
# A launcher ends by itself once the sandbox's first process is made, or when we are gone.
_LAUNCH_TIMEOUT = 1.0


class HelperClient(HelperLink):
    """One helper process. The methods that send may be called from any thread.

    Making it starts the helper; `receive` until that is true. ``inherited``: descriptors that it gets beside the plan and the
    socket, by their numbers there; they can be closed here at once. ``names``: the end of its argv. Raises `HelperStartError`
    when it cannot be executed.
    """

    def __init__(
        self,
        program: HelperProgram,
        plan: Iterable[Record],
        inherited: Mapping[int, int] = NOTHING,
        *,
        names: tuple[str, ...] = (),
    ) -> None:
        self._launcher = 0
        encoded = encode_plan(plan)
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise _not_started(error) from error
        super().__init__(ours)
        remember(self)  # now, not when the sandbox is there: another thread may fork during the start
        try:
            with theirs:
                self._launcher = spawn(program, encoded, {**inherited, 4: theirs.fileno()}, names)
            self._socket.settimeout(SEND_TIMEOUT)
        except OSError as error:
            self._socket.close()
            raise _not_started(error) from error
        except BaseException:
            self.give_up()
            raise

    def receive(self) -> bool:
        """Read what there is of the start's answer; true when the helper is ready. Raises `HelperStartError`."""
        try:
            data = self._socket.recv(4096)
            for reply in self._decoder.feed(data):
                self._take(reply)
        except (OSError, ProtocolError) as error:
            raise HelperStartError(0, "the helper's answer", str(error)) from error
        if not data and self.hello is None:
            raise HelperStartError(0, "the helper ended", "without a word")
        return self.hello is not None

    def _take(self, reply: Reply) -> None:
        if isinstance(reply, Launched):
            self._launched(reply)
        elif isinstance(reply, StartFailed):
            raise HelperStartError(reply.errno, reply.stage, reply.subject)
        elif isinstance(reply, Hello):
            if reply.version != PROTOCOL_VERSION or not reply.features & FEATURE_FDS:
                raise HelperStartError(0, f"protocol {reply.version}", f"is not {PROTOCOL_VERSION} with descriptors")
            if self.pid is None:
                raise HelperStartError(0, "the helper's answer", "ready before it was launched")
            self.hello = reply
            self._reap_launcher(_LAUNCH_TIMEOUT)

    def _launched(self, reply: Launched) -> None:
        pid = reply.pid
        if self.pid is not None:
            raise HelperStartError(0, "the helper's answer", "launched twice")
        # Not a process of somebody else's: it will be killed by this number. Where the host ignores SIGCHLD an early end leaves
        # no zombie to ask about or to open; why it ended is still to be read.
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            self.pid = pid
            self._pidfd = open_process(pid)

    def wait_launched(self, deadline: float) -> int:
        """Blocking: until there is a first process; its pid. Raises as `wait_ready`."""
        while self.pid is None:
            self._heard(deadline)
        return self.pid

    def hang_up(self) -> int:
        """Close the control socket, which ends the helper and everything in it. Returns a pidfd to wait for, or -1."""
        forget(self)
        with self._ending:
            self._closed = True
        self._hang_up()
        self._socket.close()
        return self._pidfd

    def give_up(self) -> None:
        """End a helper that is not ready, whatever it is doing, and leave nothing of it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        launcher = self._launcher
        self._reap_launcher(_LAUNCH_TIMEOUT)
        # The launcher has ended. If it made the sandbox's first process, which is our child, it has said so before.
        with contextlib.suppress(OSError, ProtocolError, HelperStartError):
            self._socket.setblocking(False)
            while self.pid is None and (data := self._socket.recv(4096)):
                for reply in self._decoder.feed(data):
                    if isinstance(reply, Launched) and reply.pid != launcher:
                        self._launched(reply)
        self.hang_up()
        self.reap()

    def reap(self, *, timeout: float = _END_TIMEOUT) -> None:
        """After `hang_up`: wait for the helper's end, by force past ``timeout`` seconds, and leave no zombie.

        What the kernel cannot end (a process that waits for a dead file server) is not waited for: a line in the log.
        """
        self._reap_launcher(timeout)
        try:
            ended = self._ended(timeout)
        except BaseException:  # a Ctrl-C while it ends: no patience, but nothing is left either
            self._kill(signal.SIGKILL)
            ended = self._ended(timeout)
            self._let_go(ended=ended)
            raise
        if not ended:
            self._kill(signal.SIGKILL)
            ended = self._ended(timeout)
        self._let_go(ended=ended)

    def _let_go(self, *, ended: bool) -> None:
        self._close_pidfd()
        if self.pid is not None:
            if ended:
                collect(self.pid)
            else:
                log.warning("the helper %s does not end; something in it is stuck in the kernel", self.pid)
            self.pid = None

    def _ended(self, timeout: float) -> bool:
        if self._pidfd < 0:
            return self.pid is None or ended_within(self.pid, timeout)
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def destroy(self) -> None:
        """Let the helper end now: by SIGKILL to its first process, which in a pid namespace ends everything in it. Without a
        namespace the end of the socket has to do, for it is the helper who finds what commands have left; `reap` is by force.
        Nothing when it is closed: then it ends anyway, and its number may be another process's soon.
        """
        with self._ending:
            if self._closed:
                return
            if self.hello is None or self.hello.contained:
                self._kill(signal.SIGKILL)
            else:
                self._hang_up()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # also for copies of it, and for a thread that is sending
        self._kill(signal.SIGCONT)  # a command that shares its uid may have stopped it

    def _kill(self, number: int) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)
        elif self.pid is not None:  # our child, which nobody has reaped
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _reap_launcher(self, timeout: float) -> None:
        """It ends by itself, in a moment. One that does not (a mount source on a dead file server) is ended by force."""
        launcher, self._launcher = self._launcher, 0
        if not launcher or launcher == self.pid:
            return
        if not ended_within(launcher, timeout):
            with contextlib.suppress(ProcessLookupError):
                os.kill(launcher, signal.SIGKILL)
            if not ended_within(launcher, timeout):
                log.warning("the helper's launcher %s does not end; it is stuck in the kernel", launcher)


def _not_started(error: OSError) -> HelperStartError:
    return HelperStartError(error.errno or 0, "the helper", "could not be started")
