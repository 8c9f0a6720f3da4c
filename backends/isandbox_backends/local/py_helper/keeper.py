"""The keeper of one command: a process that starts it, is told to end it, reaps what it leaves behind and reports its end.

It is the only one that reaps, so a number that it signals cannot have been given to another process. When the server is
gone, its end of the orders' socket is closed, and the keeper ends the command and itself.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import sys
import time
from typing import NoReturn

from .plan import Plan
from .program import run_program
from .system import become_subreaper, close_all_but, drain, name_process, wake_on_child
from .tree import Tree
from .wire import PAIR, ExitReport, Fault, Flag, Frame, Limit, Pipes, Stage, Start, encode_started, send

# The server's orders are two bytes each; the one byte in return says that the end is reported.
ORDER_END, ORDER_SIGNAL, ORDER_LIMIT = 1, 2, 3
REPORTED = b"r"

_PACE = 0.02  # between two passes of killing: spinning would starve the processes that are to die
_LIMIT = 0.9  # an end is reported at the latest so long after the order
_LOOK = 0.05  # where orphans do not come back: between two looks at the tree


def keep(start: Start, plan: Plan, pipes: Pipes, orders: int, began: float) -> NoReturn:
    """In a fresh process: never returns. Exits 0 when the end is reported and nothing is left."""
    code = 1
    try:
        _Keeper(start, plan, pipes, orders, began).run()
        code = 0
    finally:
        os._exit(code)


# Seconds. poll takes 32-bit milliseconds, which a time-out of a month is past; one look a day costs nothing.
_LONGEST = 86_400.0


class _Keeper:
    def __init__(self, start: Start, plan: Plan, pipes: Pipes, orders: int, began: float) -> None:
        close_all_but({0, 1, 2, 3, orders, *pipes.all()})
        name_process("isandbox-keeper")
        self._start, self._plan, self._pipes, self._orders, self._began = start, plan, pipes, orders, began
        self._tree = Tree(complete=become_subreaper())
        self._wake = wake_on_child()
        self._child = 0
        self._failures = -1
        self._failure = (0, 0)
        self._status: int | None = None
        self._left = True
        self._fault = Fault.NONE
        self._limits = Limit.NONE
        self._reported = False
        self._alone = False  # the server is gone: the sandbox is lost, and a lost one reports no results
        self._sweep_at = self._report_by = 0.0
        self._deadline = began + start.timeout_ms / 1000 if start.timeout_ms else None

    def run(self) -> None:
        if not self._launch():
            return
        selector = selectors.DefaultSelector()
        selector.register(self._wake, selectors.EVENT_READ)
        selector.register(self._orders, selectors.EVENT_READ)
        while not (self._reported and self._status is not None and not self._left):
            for key, _ in selector.select(self._patience()):
                if key.fd == self._wake:
                    drain(self._wake)
                elif not self._take_orders():
                    selector.unregister(self._orders)
            self._reap()
            self._take_time()

    def _launch(self) -> bool:
        """Start the command; false when there is none and its end is reported already."""
        self._failures, failures = os.pipe()
        try:
            self._child = os.fork()
        except OSError as error:
            self._failure = (Stage.IDENTITY, error.errno or 0)
            self._status, self._left = 127 << 8, False
            self._report()
            return False
        if self._child == 0:
            run_program(self._start, self._plan, self._pipes, failures)
        os.close(failures)
        for fd in set(self._pipes.all()) - {self._pipes.status}:
            os.close(fd)
        # A file operation may wait for a slow disk; a program is only waited for until its exec.
        if not self._start.operation and self._take_failure() and Flag.WANT_STARTED in self._start.flags:
            send(self._pipes.status, Frame.STARTED, encode_started(self._start.id, self._child))
        return True

    def _take_failure(self) -> bool:
        """Read the verdict of the child's start; true for a good one."""
        if self._failures >= 0:
            words = os.read(self._failures, PAIR.size)
            os.close(self._failures)
            self._failures = -1
            if len(words) == PAIR.size:
                self._failure = PAIR.unpack(words)
        return self._failure == (0, 0)

    def _patience(self) -> float | None:
        times = []
        if self._deadline is not None and not self._reported and not self._fault:
            times.append(self._deadline)
        if self._report_by:
            times.append(self._sweep_at)
        now = time.monotonic()
        if not self._tree.complete:
            times.append(now + _LOOK)
        return min(max(0.0, min(times) - now), _LONGEST) if times else None

    def _take_orders(self) -> bool:
        """False when the server is gone."""
        try:
            data = os.read(self._orders, 64)
        except ConnectionResetError:  # gone without having read what was written to it
            data = b""
        for order, value in zip(data[::2], data[1::2], strict=False):
            if order == ORDER_END:
                self._end(Fault(value))
            elif order == ORDER_LIMIT:
                self._limits |= Limit(value)
            elif self._status is None and not self._start.operation:
                with contextlib.suppress(OSError):
                    os.killpg(self._child, value)
        if not data:
            self._alone = True
            self._end(Fault.KILLED)
        return bool(data)

    def _end(self, fault: Fault) -> None:
        """Begin to end every process of the command."""
        if not self._fault and not self._reported:
            self._fault = fault
        if not self._report_by:
            self._report_by = time.monotonic() + _LIMIT
        self._sweep()

    def _sweep(self) -> None:
        if self._status is None:
            # One call that no fork of the group escapes; the walk is for those that have left the group.
            for kill_it in (os.killpg, os.kill):
                with contextlib.suppress(OSError):
                    kill_it(self._child, signal.SIGKILL)
        self._tree.kill()
        self._sweep_at = time.monotonic() + _PACE

    def _reap(self) -> None:
        self._left = True
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # the proof that nothing is left, where orphans come back
                self._left = not self._tree.complete and bool(self._tree.look())
                break
            if pid == 0:
                break
            if os.WIFSTOPPED(status):  # it has made its parent its tracer, and stands until its time-out; it has not ended
                continue
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXFSZ and self._plan.most(resource.RLIMIT_FSIZE):
                self._limits |= Limit.FILE_SIZE
            if pid == self._child:
                self._status = status
        if self._status is not None and not self._reported and not (self._fault and self._left):
            self._report()

    def _take_time(self) -> None:
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline and not self._fault and not self._reported:
            self._end(Fault.TIMEOUT)
        if self._report_by and self._left and now >= self._sweep_at:
            self._sweep()
        if self._report_by and now >= self._report_by and not self._reported:
            self._report()
        if not self._tree.complete:
            self._tree.look()

    def _report(self) -> None:
        self._reported = True
        if self._alone:
            os.close(self._pipes.status)
            return
        if self._status is not None:  # else: a process that even SIGKILL does not end yet
            self._take_failure()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = ExitReport(
            id=self._start.id,
            wait_status=int(signal.SIGKILL) if self._status is None else self._status,
            fault=self._fault,
            start_errno=self._failure[1],
            start_stage=self._failure[0],
            lingering=len(self._tree.look()) if self._left else 0,
            maxrss_kb=usage.ru_maxrss // (1024 if sys.platform == "darwin" else 1),
            user=usage.ru_utime,
            system=usage.ru_stime,
            duration=time.monotonic() - self._began,
            limits=self._limits,
        )
        with contextlib.suppress(OSError):
            os.write(self._orders, REPORTED)
        send(self._pipes.status, Frame.EXIT, report.encode())
