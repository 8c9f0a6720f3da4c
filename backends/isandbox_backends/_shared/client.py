"""The host's end of one helper: start it with a plan, speak the protocol, end it."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from isandbox._text import plain
from isandbox.errors import SandboxClosedError, SandboxLostError
from isandbox_backends._shared.cgroups import CommandGroup
from isandbox_backends._shared.helper import HelperProgram
from isandbox_backends._shared.host_process import forget, log, remember
from isandbox_backends._shared.plan import Record, encode_plan
from isandbox_backends._shared.portable import anonymous_file, open_process
from isandbox_backends._shared.protocol import (
    FEATURE_FDS,
    NO_METERS,
    PROTOCOL_VERSION,
    Decoder,
    Hello,
    Launched,
    ProtocolError,
    Reply,
    StartFailed,
    StartFlag,
)
from isandbox_backends._shared.requests import encode_kill, encode_signal, encode_start

# A helper that does not read its socket for this long is lost; it never blocks on a command's account.
_SEND_TIMEOUT = 5.0
_END_TIMEOUT = 2.0
# A launcher ends by itself once the sandbox's first process is made, or when we are gone.
_LAUNCH_TIMEOUT = 1.0
# Descriptors of the helper, beside the plan and the socket (base.h).
CLAIM_FD, OUTER_FD, LISTEN_FD, LOCK_FD, NOTE_FD = 5, 6, 7, 8, 9
NOTHING: Mapping[int, int] = MappingProxyType({})


class HelperStartError(Exception):
    """The helper could not do its plan. ``stage`` and ``subject`` are its words, ``errno`` the kernel's."""

    def __init__(self, errno: int, stage: str, subject: str) -> None:
        self.errno, self.stage, self.subject = errno, stage, subject
        what = f"{stage} {plain(subject)}".strip() if subject else stage
        super().__init__(f"{what}: {os.strerror(errno)}" if errno else what)


class HelperClient:
    """One helper process. The methods that send may be called from any thread.

    Making it starts the helper; `receive` until that is true. ``inherited``: descriptors that it gets beside the plan and the
    socket, by their numbers there; they can be closed here at once. Raises `HelperStartError` when it cannot be executed.
    """

    def __init__(self, program: HelperProgram, plan: Iterable[Record], inherited: Mapping[int, int] = NOTHING) -> None:
        self.hello: Hello | None = None
        self.pid: int | None = None
        self._pidfd = -1
        self._decoder = Decoder()
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._next_id = 0
        self._closed = False
        self._launcher = 0
        encoded = encode_plan(plan)
        try:
            self._socket, theirs = socket.socketpair()
        except OSError as error:
            raise _not_started(error) from error
        remember(self)  # now, not when the sandbox is there: another thread may fork during the start
        try:
            with theirs:
                self._launcher = _spawn(program, encoded, {**inherited, 4: theirs.fileno()})
            self._socket.settimeout(_SEND_TIMEOUT)
        except OSError as error:
            self._socket.close()
            raise _not_started(error) from error
        except BaseException:
            self.give_up()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

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
            self._launched(reply.pid)
        elif isinstance(reply, StartFailed):
            raise HelperStartError(reply.errno, reply.stage, reply.subject)
        elif isinstance(reply, Hello):
            if reply.version != PROTOCOL_VERSION or not reply.features & FEATURE_FDS:
                raise HelperStartError(0, f"protocol {reply.version}", f"is not {PROTOCOL_VERSION} with descriptors")
            if self.pid is None:
                raise HelperStartError(0, "the helper's answer", "ready before it was launched")
            self.hello = reply
            self._reap_launcher(_LAUNCH_TIMEOUT)

    def _launched(self, pid: int) -> None:
        if self.pid is not None:
            raise HelperStartError(0, "the helper's answer", "launched twice")
        # Not a process of somebody else's: it will be killed by this number. Where the host ignores SIGCHLD an early end leaves
        # no zombie to ask about or to open; why it ended is still to be read.
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            self.pid = pid
            self._pidfd = open_process(pid)

    def wait_ready(self, deadline: float) -> None:
        """Blocking: until the helper is ready. Raises `HelperStartError`, also past ``deadline`` (monotonic seconds)."""
        while not self._heard(deadline):
            pass

    def wait_launched(self, deadline: float) -> int:
        """Blocking: until there is a first process; its pid. Raises as `wait_ready`."""
        while self.pid is None:
            self._heard(deadline)
        return self.pid

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

    @property
    def closed(self) -> bool:
        return self._closed

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
                        self._launched(reply.pid)
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
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self.pid is not None:
            if ended:
                _wait_for(self.pid)
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

    def abandon(self) -> None:
        """In a forked child: give up the copies of the descriptors. The parent's helper is not told."""
        self._lock, self._ending = threading.Lock(), threading.Lock()  # another thread of the parent may have held them
        self._closed = True
        self._socket.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

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

    def __del__(self) -> None:
        # A client that was dropped: the socket closes itself, this is an int.
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def _spawn(program: HelperProgram, plan: bytes, inherited: Mapping[int, int]) -> int:
    plan_fd = anonymous_file("isandbox-plan", plan, sealed=True)
    try:
        copies: list[int] = []
        try:
            actions = []
            free = max(OUTER_FD, *inherited) + 1
            for target, source in {3: plan_fd, **inherited}.items():
                if source < free:  # another dup2 would overwrite it
                    source = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, free)  # noqa: PLW2901
                    copies.append(source)
                actions.append((os.POSIX_SPAWN_DUP2, source, target))
            return os.posix_spawn(program.path, program.argv, program.env, file_actions=actions)
        finally:
            for copy in copies:
                os.close(copy)
    finally:
        os.close(plan_fd)


def _not_started(error: OSError) -> HelperStartError:
    return HelperStartError(error.errno or 0, "the helper", "could not be started")


def ended_within(pid: int, timeout: float) -> bool:
    """Without a pidfd: ask until it has ended, and reap it."""
    until, pause = time.monotonic() + timeout, 0.0001
    with contextlib.suppress(ChildProcessError):  # reaped by somebody else
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.005)
    return True


def _wait_for(pid: int) -> None:
    # Somebody else may have reaped it: a host with SIGCHLD ignored, or one that waits for any child.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
