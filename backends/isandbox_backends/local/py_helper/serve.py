"""The server: takes the host's requests, makes a keeper for each command, watches the quotas.

When the host is gone it ends everything.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import socket
import time
from dataclasses import dataclass

from .keeper import ORDER_END, ORDER_LIMIT, ORDER_SIGNAL, keep
from .life import Life, answer
from .plan import Plan
from .system import drain, wake_on_child
from .tree import Tree, kill, parent_of
from .watch import PERIOD, look
from .wire import (
    ASK,
    PAIR,
    ExitReport,
    Farewell,
    Fault,
    Frame,
    Inbox,
    Pipes,
    Question,
    Stage,
    Start,
    broken,
    parse_pipes,
    parse_start,
    send,
)

# After the host's end: so long for the keepers to end their commands.
_PARTING = 1.2
_RECEIVE = 1 << 20
_RECORD_BYTES = 320  # of a kept command, of which there are none


@dataclass(eq=False, slots=True)
class _Command:
    """``told``: the quota's verdict was passed on. ``orders``: the server's end of the keeper's socket."""

    id: int
    keeper: int
    orders: socket.socket
    status: int
    began: float
    told: bool = False

    def order(self, kind: int, value: int) -> None:
        with contextlib.suppress(OSError):  # the keeper is gone, or has been stopped and its socket is full
            self.orders.send(bytes((kind, value)))


class Server:
    def __init__(self, plan: Plan, control: socket.socket, *, complete: bool) -> None:
        self._plan, self._control = plan, control
        self._tree = Tree(complete=complete)
        self._inbox = Inbox()
        self._commands: dict[int, _Command] = {}
        self._strays = False
        self._look_at = 0.0
        self._wake = wake_on_child()
        self._life = Life(plan.lifetime, plan.idle)
        self._over: Farewell | None = None

    def run(self) -> None:
        """Until the host hangs up, or the sandbox's time has come. Raises `HelperError` when the host breaks the protocol."""
        selector = selectors.DefaultSelector()
        selector.register(self._wake, selectors.EVENT_READ)
        selector.register(self._control, selectors.EVENT_READ)
        watching = bool(self._plan.memory or self._plan.cpu or self._plan.most(resource.RLIMIT_NOFILE))
        while True:
            ticking = (watching and self._commands) or self._strays
            patience = self._patience(ticking=bool(ticking))
            if self._over is not None:
                send(self._control.fileno(), Frame.GOODBYE, self._over.to_bytes(4, "little"))
                return
            for key, _ in selector.select(patience):
                if key.fd == self._wake:
                    drain(self._wake)
                elif not self._receive():
                    return
            self._reap()
            if self._strays:
                self._end_strays()
            if watching and self._commands and time.monotonic() >= self._look_at:
                self._watch()
                self._look_at = time.monotonic() + PERIOD

    def _patience(self, *, ticking: bool) -> float | None:
        """Seconds that may be waited; sets what ends the sandbox."""
        left = self._life.wait(busy=bool(self._commands))
        if isinstance(left, Farewell):
            self._over = self._over or left
            left = None
        return left if not ticking else PERIOD if left is None else min(left, PERIOD)

    def end_everything(self) -> None:
        """The closed sockets tell the keepers; what they leave is ended from here."""
        for command in self._commands.values():
            command.orders.close()
        until = time.monotonic() + _PARTING
        while self._commands and time.monotonic() < until:
            self._reap()
            time.sleep(0.005)
        for _ in range(20):
            if self._tree.kill():
                break
            time.sleep(0.01)

    def _receive(self) -> bool:
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        data, fds, message_flags, _ = socket.recv_fds(self._control, _RECEIVE, 32, flags)
        if message_flags & socket.MSG_CTRUNC:
            raise broken("too many descriptors")
        for kind, payload, theirs in self._inbox.feed(data, fds):
            self._handle(kind, payload, theirs)
        return bool(data)

    def _handle(self, kind: int, payload: bytes, fds: list[int]) -> None:
        self._life.use()
        if kind == Frame.SHUTDOWN and not payload and not fds:
            self._over = Farewell.SHUTDOWN
            return
        if kind == Frame.ASK:
            self._ask(payload, fds)
            return
        if kind == Frame.START:
            start = parse_start(payload)
            if start.id in self._commands:
                raise broken("id in use")
            self._begin(start, parse_pipes(start.flags, fds))
            return
        if kind not in {Frame.KILL, Frame.SIGNAL}:
            raise broken("unknown frame")
        if len(payload) != PAIR.size or fds:
            raise broken("frame length")
        id_, value = PAIR.unpack(payload)
        command = self._commands.get(id_)  # gone already: nothing to do
        if command is not None and kind == Frame.KILL and value in set(Fault):
            command.order(ORDER_END, value)
        elif command is not None and kind == Frame.SIGNAL and 0 < value < signal.NSIG:
            command.order(ORDER_SIGNAL, value)

    def _ask(self, payload: bytes, fds: list[int]) -> None:
        if len(payload) != ASK.size or len(fds) != 1:
            raise broken("frame length")
        what, _, value = ASK.unpack(payload)
        if what == Question.RENEW:
            self._life.renew(value / 1000)
        elif what == Question.COMMANDS:  # none is kept here
            answer(fds[0], PAIR.pack(0, _RECORD_BYTES))
            return
        elif what != Question.STATUS:
            raise broken("unknown question")
        answer(fds[0], self._life.status(len(self._commands)))

    def _begin(self, start: Start, pipes: Pipes) -> None:
        began = time.monotonic()
        orders, theirs = socket.socketpair()
        orders.setblocking(False)
        try:
            keeper = os.fork()
        except OSError as error:
            report = ExitReport(start.id, 127 << 8, start_errno=error.errno or 0, start_stage=Stage.IDENTITY)
            send(pipes.status, Frame.EXIT, report.encode())
            for end in (orders, theirs):
                end.close()
            for fd in pipes.all():
                os.close(fd)
            return
        if keeper == 0:
            keep(start, self._plan, pipes, theirs.fileno(), began)
        theirs.close()
        # The keeper has its own copies. The status pipe stays: if the keeper is murdered, its end is reported from here.
        for fd in set(pipes.all()) - {pipes.status}:
            os.close(fd)
        self._commands[start.id] = _Command(start.id, keeper, orders, pipes.status, began)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGCONT)  # a command stopped its own keeper: no exit may be lost by that
                continue
            for command in list(self._commands.values()):
                if command.keeper == pid:
                    self._keeper_gone(command, status)

    def _keeper_gone(self, command: _Command, status: int) -> None:
        """An orderly keeper exits 0 after its report. Any other end is the work of a command."""
        del self._commands[command.id]
        if status:
            self._strays = True
            self._end_strays()
            reported = b""
            with contextlib.suppress(OSError):
                reported = command.orders.recv(1)
            if not reported:
                lived = time.monotonic() - command.began
                report = ExitReport(command.id, int(signal.SIGKILL), Fault.KILLED, duration=lived)
                send(command.status, Frame.EXIT, report.encode())
        command.orders.close()
        os.close(command.status)

    def _end_strays(self) -> None:
        """Processes that lost their keeper have come to this one, where the system brings orphans back."""
        kept = {command.keeper for command in self._commands.values()}
        self._strays = False
        for process in self._tree.look():
            if process.pid in kept:
                continue
            if parent_of(process) in kept:
                kept.add(process.pid)
            else:
                self._strays = True
                kill(process)

    def _watch(self) -> None:
        by_keeper = {command.keeper: command for command in self._commands.values() if not command.told}
        for pid, fault, limits in look(self._plan, by_keeper):
            if limits:
                by_keeper[pid].order(ORDER_LIMIT, limits)
            if fault:
                by_keeper[pid].told = True
                by_keeper[pid].order(ORDER_END, fault)
