"""The semantics of exec, once, without any I/O: what arrives from a command goes in, when to stop and the result come out.

Both drivers (aio.py, blocking.py) do nothing but move bytes and time in here.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NoReturn

from isandbox._text import plain
from isandbox.capture import HeadTail
from isandbox.errors import SandboxClosedError, SandboxLostError
from isandbox.records import STREAMS, ExecResult, Offsets, Omitted
from isandbox_backends._shared.protocol import Decoder, Exit, ProtocolError, Started, StartStage
from isandbox_backends._shared.protocol import Omitted as Missed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from isandbox.command import ProcessSpec
    from isandbox.records import Limit, Stream

# After the command's own exit: stop when its output has been idle this long, and in any case after the longer time.
IDLE = 0.1
DRAIN = 1.0
# The helper ends a command within a second of its time-out or of a kill; one that says nothing for this long is lost.
ANSWER = 5.0
# It says that a program runs when the kernel has found it, which may take a disk some time; one that never says so is lost.
START_ANSWER = 60.0


class Exchange:
    """One command as the host sees it. Times are monotonic seconds."""

    def __init__(
        self,
        spec: ProcessSpec,
        now: float,
        *,
        output_quota: int | None = None,
        keep_all: bool = False,
        to_the_end: bool = False,
        relayed: bool = False,
    ) -> None:
        """``to_the_end``: the output ends with the process, as nobody else has its pipes; a part of it is no answer.
        ``relayed``: its end is reported when the output that came before has been taken, so while nobody reads nothing is late.
        """
        self.spec = spec
        self.pid: int | None = None
        self.serial: int | None = None
        """Of a kept command that has started."""
        self.finished = False
        self.released = False
        """Somebody has let go of the handle: there will be no result."""
        self.lost: str | None = None
        self.wants_start = False
        """Somebody waits for the news that it has started."""
        self.over_output = False
        """The output quota is used up: the driver sends a kill with fault ``output``, once."""
        limit = (1 << 62) if keep_all else spec.max_output
        streams: tuple[Stream, ...] = ("stdout",) if spec.stderr == "merge" else ("stdout", "stderr")
        self._kept = {stream: HeadTail(limit) for stream in streams}
        self._open: set[Stream] = set(streams)
        self._told = b""
        self._exit: Exit | None = None
        self._exit_at = self._last_output = now
        self._status_ended = False
        self.distrusted = False
        """The helper broke the protocol: nothing that it says is kept any more."""
        self._quota = output_quota
        self._idle = ANSWER if to_the_end else IDLE
        self._drain = None if to_the_end else DRAIN
        self._answer_by = None if spec.timeout is None else now + spec.timeout + ANSWER
        self._start_by: float | None = now + START_ANSWER
        self._overdue = False
        self._relayed = relayed
        self._paused_at: float | None = now if relayed else None
        self._first: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        self._missed: dict[Stream, int] = {"stdout": 0, "stderr": 0}

    def output(self, stream: Stream, data: bytes | memoryview, now: float) -> None:
        self._last_output = now
        self._kept[stream].feed(data)
        if self._relayed and self._answer_by is not None:
            self._answer_by = max(self._answer_by, now + ANSWER)  # the end comes after the output
        if self._quota is not None and sum(kept.total for kept in self._kept.values()) > self._quota:
            self._quota = None
            self.over_output = True

    def output_ended(self, stream: Stream) -> None:
        self._open.discard(stream)

    def pause(self, now: float) -> None:
        """Nobody reads the output for a while: time stands still for the rules about draining it."""
        if self._paused_at is None:
            self._paused_at = now

    def resume(self, now: float) -> None:
        if self._paused_at is not None:
            if self._exit is not None:
                self._exit_at += now - max(self._paused_at, self._exit_at)  # it may have ended in the pause
                self._last_output += now - self._paused_at
            elif self._relayed and self._answer_by is not None:
                self._answer_by += now - self._paused_at
            self._paused_at = None

    def status(self, data: bytes, now: float) -> None:
        """Bytes from the status pipe; empty at its end."""
        self.reported(self._told + data, now, ended=not data)

    def reported(self, told: bytes, now: float, *, ended: bool) -> None:
        """All that the status pipe has said so far. May be said again: after a Ctrl-C in the middle of it, nothing is lost."""
        start: Started | None = None
        end: Exit | None = None
        missed: Missed | None = None
        try:
            for reply in () if self.distrusted else Decoder().feed(told):
                if isinstance(reply, Started) and start is None and end is None:
                    start = reply
                    self._begin(reply)
                elif isinstance(reply, Missed) and missed is None and end is None and self._relayed:
                    missed = reply
                    self._missed = {"stdout": reply.out, "stderr": reply.err}
                elif isinstance(reply, Exit) and end is None:
                    end = reply
                    if self._exit is None:
                        self._exit_at, self._exit = now, end  # in this order: an interruption between the two does no harm
                else:
                    raise ProtocolError(f"{type(reply).__name__} out of turn")
        except ProtocolError as error:
            self._lose(f"its helper broke the protocol: {error}")
            self.distrusted = True  # also where the result stands: what more it says is not even kept
        self._told = b"" if self.distrusted else told
        if ended:
            self._status_ended = True
            if self._exit is None:
                self._lose("its first process died")

    def _begin(self, started: Started) -> None:
        self._first = {"stdout": started.first_out, "stderr": started.first_err}
        self.serial = started.serial or None
        self.pid = started.pid
        self._start_by, self._overdue = None, False

    def offset(self, stream: Stream) -> int:
        """Where a stream goes on after what has been taken in."""
        kept = self._kept.get(stream)
        return self._first[stream] + self._missed[stream] + (kept.total if kept else 0)

    def offsets(self, dropped: Mapping[Stream, int], waiting: Iterable[tuple[Stream, bytes]]) -> Offsets:
        """Where an iteration goes on: before what it has dropped, and what still waits for it."""
        behind = dict(dropped)
        for stream, chunk in waiting:
            behind[stream] += len(chunk)
        return Offsets(*(self.offset(stream) - behind[stream] for stream in STREAMS))

    @property
    def start_stage(self) -> StartStage:
        """Where it failed to start."""
        return self._exit.start_stage if self._exit is not None else StartStage.NONE

    def let_go(self) -> None:
        """Nobody wants the result any more."""
        self.released = self.finished = True

    def expect_end(self, now: float) -> None:
        """A kill was sent: the end must be reported soon, also of a command that nobody reads from."""
        if paused := self._paused_at is not None:
            self.resume(now)  # the pause so far is not to be added to this
        by = now + ANSWER
        self._answer_by = by if self._answer_by is None else min(by, self._answer_by)
        if paused:
            self.pause(now)

    @property
    def exited(self) -> bool:
        return self._exit is not None

    def due(self) -> float | None:
        """When `advance` must be called although nothing has arrived; ``None`` for never."""
        if self.finished:
            return None
        if self._exit is None:
            end = None if self._relayed and self._paused_at is not None else self._answer_by
            start = self._start_by if self.wants_start else None
            return min((by for by in (start, end) if by is not None), default=None)
        if self._paused_at is not None:
            return None
        idle = max(self._exit_at, self._last_output) + self._idle
        return idle if self._drain is None else min(idle, self._exit_at + self._drain)

    def advance(self, now: float) -> None:
        """After each round of reading, and when `due`."""
        if self.finished:
            return
        due = self.due()
        if self._exit is None:
            if due is not None and now >= due:
                self._miss_answer(now)
            return
        self.finished = not self._open or (due is not None and now >= due)

    def _miss_answer(self, now: float) -> None:
        # This process may itself have slept: one more round, in which a report that is already there is read.
        late_start = self.wants_start and self._start_by is not None and self._start_by <= now
        if self._overdue:
            self._lose(f"it did not report the {'start' if late_start else 'end'} of a command in time")
        self._overdue = True
        if late_start:
            self._start_by = now + IDLE
        else:
            self._answer_by = now + IDLE

    def give_up(self) -> None:
        """The sandbox was closed: what has not been reported will not be, and what has not been drained is not read."""
        self._lose("it was closed")
        self.finished = True

    def _lose(self, why: str) -> None:
        if self._exit is None:
            self.lost = why
            self.finished = True

    def result(self, *, closed: bool = False) -> ExecResult:
        """After `finished`. Raises `SandboxLostError`, or `OSError` for a working directory that is not there."""
        end = self._report(closed=closed)
        code, signal_number = kernel_words(end.wait_status)
        start_error, limits = self._start_error(end)
        if start_error is not None and end.start_stage is not StartStage.EXEC:
            code = 126
        stderr = self._kept.get("stderr")
        return ExecResult(
            exit_code=code,
            signal=signal_number,
            # Also where the command was faster than the kill: what a quota means cannot depend on who is first.
            fault=end.fault or ("output" if self.over_output else None),
            limits_hit=limits | end.limits,
            stdout_bytes=self._kept["stdout"].value(),
            stderr_bytes=stderr.value() if stderr else b"",
            omitted=Omitted(
                self._kept["stdout"].omitted + self._missed["stdout"],
                (stderr.omitted if stderr else 0) + self._missed["stderr"],
            ),
            lingering=bool(self._open) or (end.lingering and not self._status_ended),
            start_error=start_error,
            duration=end.duration,
            cpu_time=end.cpu_time,
            max_rss=end.max_rss,
        )

    def file_error(self, *, closed: bool = False) -> int:
        """Errno of a file operation that failed, 0 when it did not. EFBIG when its answer was over the quota."""
        end = self._report(closed=closed)
        if end.start_errno:
            return end.start_errno
        if self.over_output:
            return errno.EFBIG
        return 0 if end.wait_status == 0 and not self._open else errno.EIO

    def _report(self, *, closed: bool) -> Exit:
        if self._exit is not None and self.lost is None:
            return self._exit
        if self.released:
            raise SandboxClosedError("this handle was let go; attach to the command again")
        if closed:
            raise SandboxClosedError("the sandbox was closed while a command ran")
        raise SandboxLostError(f"the sandbox was lost while a command ran: {self.lost}")

    def _start_error(self, end: Exit) -> tuple[str | None, frozenset[Limit]]:
        if not end.start_errno:
            return None, frozenset()
        if end.start_stage is StartStage.CWD:
            _raise_os_error(end.start_errno, self.spec.cwd or ".")
        why = os.strerror(end.start_errno)
        limits: frozenset[Limit] = frozenset({"pids"}) if end.start_errno == errno.EAGAIN else frozenset()
        if end.start_stage is not StartStage.EXEC:
            return f"the sandbox could not start a process: {why}", limits
        name = self.spec.argv[0] if self.spec.argv else "/bin/sh"
        return f"{plain(name)}: {why}", limits


def _raise_os_error(number: int, path: str) -> NoReturn:
    raise OSError(number, os.strerror(number), path)


def kernel_words(wait_status: int) -> tuple[int, int | None]:
    """Exit code and signal; a death by signal n is 128 + n."""
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        return 128 + number, number
    return os.WEXITSTATUS(wait_status), None
