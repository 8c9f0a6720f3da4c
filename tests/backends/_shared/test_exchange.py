"""The semantics of exec without any I/O: bytes and times go in, the result comes out."""

from __future__ import annotations

import errno
import signal
import struct
from typing import Any

import pytest

from isandbox import ProcessSpec, SandboxClosedError, SandboxLostError
from isandbox_backends._shared.exchange import ANSWER, DRAIN, IDLE, Exchange


def report(status: int = 0, *, fault: int = 0, start_errno: int = 0, stage: int = 0, lingering: int = 0) -> bytes:
    payload = struct.pack("<IiIIIIIIQQQ", 1, status, fault, 0, start_errno, stage, lingering, 4, 1000, 2000, 5_000_000)
    return struct.pack("<IHH", len(payload), 5, 0) + payload


STARTED = struct.pack("<IHHIIIIQQ", 32, 4, 0, 1, 77, 0, 0, 0, 0)


def exchange(now: float = 0.0, *, quota: int | None = None, **options: Any) -> Exchange:
    spec = ProcessSpec(**{"argv": ("prog",), "timeout": None, **options})
    return Exchange(spec, now, output_quota=quota)


def ended(status: int = 0, *, name: str = "prog", **options: Any) -> Exchange:
    """A command that has ended with both streams at EOF."""
    x = exchange(argv=(name,))
    for stream in ("stdout", "stderr"):
        x.output_ended(stream)
    x.status(report(status, **options), 1.0)
    x.status(b"", 1.0)
    x.advance(1.0)
    assert x.finished
    return x


def test_it_ends_at_once_when_everything_is_at_eof() -> None:
    """No waiting when nothing can come any more; nothing lingers."""
    result = ended().result()
    assert (result.exit_code, result.lingering, result.ok) == (0, False, True)
    assert (result.duration, result.max_rss) == (5.0, 4096)
    assert result.cpu_time == pytest.approx(0.003)


def test_the_idle_rule() -> None:
    """With a stream held open, it ends 100 ms after the last output."""
    x = exchange()
    x.output("stdout", b"a", 9.9)
    x.status(report(), 10.0)
    x.advance(10.0)
    assert x.due() == pytest.approx(10.0 + IDLE)
    x.output("stdout", b"b", 10.05)
    x.advance(10.1)
    assert not x.finished
    x.advance(10.05 + IDLE)
    assert x.finished
    assert (x.result().stdout_bytes, x.result().lingering) == (b"ab", True)


def test_the_drain_rule() -> None:
    """Output that never pauses is drained for one second after the exit, not longer."""
    x = exchange()
    x.status(report(), 10.0)
    now = 10.0
    while not x.finished:
        x.output("stdout", b"x", now)
        x.advance(now)
        now += 0.05
        assert now < 12
    assert now == pytest.approx(10.0 + DRAIN, abs=0.11)
    assert x.result().lingering


def test_no_exit_no_end() -> None:
    """EOF on both streams is not the end of a command."""
    x = exchange()
    x.output_ended("stdout")
    x.output_ended("stderr")
    x.advance(1000.0)
    assert not x.finished
    assert x.due() is None


def test_time_stands_still_while_nobody_reads() -> None:
    """A paused reader does not use up the time in which output is drained."""
    x = exchange()
    x.output("stdout", b"a", 10.0)
    x.status(report(), 10.0)
    x.pause(10.02)
    assert x.due() is None
    x.advance(500.0)
    assert not x.finished
    x.resume(500.0)
    x.advance(500.05)
    assert not x.finished
    x.advance(500.0 + IDLE)
    assert x.finished


def test_an_exit_inside_a_pause_counts_from_the_end_of_the_pause() -> None:
    """The drain of a command that ended while its reader was paused is a second after the pause, not the pause's length."""
    x = exchange()
    x.pause(0.0)
    x.status(report(), 100.0)
    x.resume(200.0)
    due = x.due()
    assert due is not None
    assert due <= 200.0 + IDLE
    x.advance(200.0 + DRAIN)
    assert x.finished


def test_pause_and_resume_may_come_in_any_number() -> None:
    """Two pauses are one; a resume without a pause is nothing."""
    x = exchange()
    x.resume(1.0)
    x.pause(2.0)
    x.pause(3.0)
    x.status(report(), 3.0)
    x.resume(4.0)
    x.resume(5.0)
    assert x.due() == pytest.approx(4.0 + IDLE)


def test_an_overdue_answer_gets_one_more_round() -> None:
    """The host itself may have slept: only a second silence is a loss."""
    x = exchange(0.0, timeout=2.0)
    assert x.due() == 2.0 + ANSWER
    x.advance(1000.0)
    assert not x.finished
    assert x.due() == pytest.approx(1000.0 + IDLE)
    x.advance(1000.0 + IDLE)
    assert x.finished
    with pytest.raises(SandboxLostError, match="in time"):
        x.result()


def test_the_report_may_be_in_that_last_round() -> None:
    """A report that was there all along is a result, not a loss."""
    x = exchange(0.0, timeout=2.0)
    x.advance(1000.0)
    x.status(report(9, fault=1), 1000.01)
    x.output_ended("stdout")
    x.output_ended("stderr")
    x.advance(1000.02)
    assert x.result().fault == "timeout"


@pytest.mark.parametrize(("timeout", "due"), [(None, 5.0 + ANSWER), (1.0, 1.0 + ANSWER), (100.0, 5.0 + ANSWER)])
def test_after_a_kill_the_end_is_expected(timeout: float | None, due: float) -> None:
    """Whichever is sooner: the time-out's end or the kill's."""
    x = exchange(0.0, timeout=timeout)
    x.expect_end(5.0)
    assert x.due() == due


def test_a_status_pipe_that_ends_without_a_report_is_a_loss() -> None:
    """A dead sandbox is an exception, never a result."""
    x = exchange()
    x.output("stdout", b"partial", 0.5)
    x.status(b"", 1.0)
    assert x.finished
    with pytest.raises(SandboxLostError):
        x.result()
    with pytest.raises(SandboxClosedError):
        x.result(closed=True)
    with pytest.raises(SandboxLostError):
        x.file_error()


@pytest.mark.parametrize(
    "raw",
    [b"\xff" * 40, STARTED + b"\xff" * 8, struct.pack("<IHH", 0, 99, 0), report(fault=99), struct.pack("<IHHI", 4, 3, 0, 5)],
)
def test_a_broken_protocol_is_a_loss(raw: bytes) -> None:
    """A helper that says nonsense, or the right thing out of turn, is not believed."""
    x = exchange()
    x.status(raw, 1.0)
    assert x.finished
    with pytest.raises(SandboxLostError, match="protocol"):
        x.result()


def test_a_second_report_changes_nothing() -> None:
    """The first report stands."""
    x = ended(3 << 8)
    x.status(report(4 << 8), 2.0)
    assert x.result().exit_code == 3


def test_started_tells_the_pid() -> None:
    """The pid is known from the moment the helper says it."""
    x = exchange()
    x.status(STARTED[:9], 0.1)
    assert x.pid is None
    x.status(STARTED[9:], 0.2)
    assert x.pid == 77


@pytest.mark.parametrize(("sizes", "over"), [([5, 5], False), ([5, 5, 1], True), ([11], True)])
def test_the_output_quota(sizes: list[int], over: bool) -> None:
    """Both streams count together; what is at the quota is not over it."""
    x = exchange(quota=10)
    for turn, size in enumerate(sizes):
        x.output(("stdout", "stderr")[turn % 2], bytes(size), 0.1)
    assert x.over_output is over


def test_over_the_output_quota_is_a_fault_however_the_command_ended() -> None:
    """A command that wrote too much and ended by itself before it could be ended has the fault too; one at the quota has none."""
    for size, fault in ((10, None), (11, "output")):
        x = exchange(quota=10)
        x.output("stdout", bytes(size), 0.1)
        x.output_ended("stdout")
        x.output_ended("stderr")
        x.status(report(), 0.2)
        x.advance(0.2)
        result = x.result()
        assert (result.fault, result.exit_code, result.ok) == (fault, 0, fault is None)


def test_merged_streams() -> None:
    """With merge there is one stream, and stderr is empty."""
    x = Exchange(ProcessSpec(argv=("p",), timeout=None, stderr="merge"), 0.0)
    x.output("stdout", b"both", 0.1)
    x.output_ended("stdout")
    x.status(report(), 0.2)
    x.advance(0.2)
    assert x.finished
    assert (x.result().stdout, x.result().stderr) == ("both", "")


def test_output_is_cut_and_counted() -> None:
    """max_output is kept per stream, with exact numbers of what is missing."""
    x = exchange(max_output=4)
    x.output("stdout", b"0123456789", 0.1)
    x.output("stderr", b"abc", 0.1)
    x.status(report(), 0.2)
    x.advance(1.0)
    result = x.result()
    assert result.stdout_bytes == b"01\n[... 6 bytes omitted ...]\n89"
    assert (result.omitted.stdout, result.omitted.stderr, result.truncated) == (6, 0, True)


@pytest.mark.parametrize(
    ("status", "code", "number"),
    [(0, 0, None), (1 << 8, 1, None), (255 << 8, 255, None), (9, 137, 9), (15, 143, 15), (11 | 0x80, 139, 11), (64, 192, 64)],
)
def test_the_kernels_words(status: int, code: int, number: int | None) -> None:
    """An exit code as it is; a death by signal n is 128 + n, with or without a core."""
    result = ended(status).result()
    assert (result.exit_code, result.signal) == (code, number)


@pytest.mark.parametrize(("number", "fault"), list(enumerate(("timeout", "oom", "cpu", "output", "cancelled", "killed"), 1)))
def test_faults(number: int, fault: str) -> None:
    """Each fault of the wire has its word, and a faulted command is not ok."""
    result = ended(signal.SIGKILL, fault=number).result()
    assert (result.fault, result.ok) == (fault, False)


@pytest.mark.parametrize(
    ("number", "stage", "status", "code", "limits"),
    [
        (errno.ENOENT, 4, 127 << 8, 127, frozenset()),
        (errno.EACCES, 4, 126 << 8, 126, frozenset()),
        (errno.ENOEXEC, 4, 126 << 8, 126, frozenset()),
        (errno.EAGAIN, 2, 127 << 8, 126, frozenset({"pids"})),
        (errno.ENOMEM, 1, 127 << 8, 126, frozenset()),
    ],
)
def test_a_program_that_did_not_start(number: int, stage: int, status: int, code: int, limits: frozenset[str]) -> None:
    """127 for not found, 126 for not executable or no process to be had, each with the reason."""
    result = ended(status, start_errno=number, stage=stage).result()
    assert (result.exit_code, result.limits_hit) == (code, limits)
    assert result.start_error
    assert ("prog" in result.start_error) == (stage == 4)


@pytest.mark.parametrize(("name", "said"), [("a b", "a b: "), ("é", "é: "), ("\x1b[2J\n", r"'\x1b[2J\n': ")])
def test_a_name_that_a_terminal_would_act_on(name: str, said: str) -> None:
    """The reason shows a plain name as it is, and one with control characters in quoted form."""
    result = ended(127 << 8, start_errno=errno.ENOENT, stage=4, name=name).result()
    assert (result.start_error or "").startswith(said)


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOENT, FileNotFoundError), (errno.ENOTDIR, NotADirectoryError)])
def test_a_working_directory_that_is_not_there(number: int, kind: type[OSError]) -> None:
    """That is the caller's mistake and an error with the path in it, not the command's exit code."""
    x = exchange(cwd="sub/dir")
    x.output_ended("stdout")
    x.output_ended("stderr")
    x.status(report(126 << 8, start_errno=number, stage=3), 1.0)
    x.advance(1.0)
    with pytest.raises(kind, match="sub/dir"):
        x.result()


def test_a_workspace_that_cannot_be_entered() -> None:
    """Without a cwd the path in the error is the workspace's, which relative paths start at, and not an empty one."""
    x = exchange(cwd="")
    x.output_ended("stdout")
    x.output_ended("stderr")
    x.status(report(126 << 8, start_errno=errno.EACCES, stage=3), 1.0)
    x.advance(1.0)
    with pytest.raises(PermissionError, match=r"'\.'"):
        x.result()


@pytest.mark.parametrize(("status", "number", "found"), [(0, 0, 0), (1 << 8, 2, 2), (9, 0, errno.EIO), (1 << 8, 0, errno.EIO)])
def test_file_operations(status: int, number: int, found: int) -> None:
    """An errno, success, or EIO for an operation that was killed: never success by default."""
    assert ended(status, start_errno=number, stage=5 if number else 0).file_error() == found


def test_lingering() -> None:
    """A background child without our pipes lingers as long as its keeper's status pipe is open."""
    x = exchange()
    x.output_ended("stdout")
    x.output_ended("stderr")
    x.status(report(lingering=1), 1.0)
    x.advance(1.0)
    assert x.result().lingering
    assert not ended(0, lingering=1).result().lingering


def operation(**options: Any) -> Exchange:
    return Exchange(ProcessSpec(argv=("file",), timeout=None), 0.0, keep_all=True, to_the_end=True, **options)


def test_a_file_operation_is_read_to_its_end() -> None:
    """Neither idle time nor a slow host makes half of an answer a whole one; an answer without an end is EIO."""
    x = operation()
    x.output("stdout", b"half", 0.5)
    x.status(report(), 1.0)
    x.advance(1.0 + DRAIN + IDLE)
    assert not x.finished
    x.output("stdout", b", and the rest", 3.0)
    for stream in ("stdout", "stderr"):
        x.output_ended(stream)
    x.advance(3.0)
    assert x.finished
    assert x.file_error() == 0
    assert x.result().stdout_bytes == b"half, and the rest"
    stuck = operation()
    stuck.output("stdout", b"half", 0.5)
    stuck.status(report(), 1.0)
    assert stuck.due() == pytest.approx(1.0 + ANSWER)
    stuck.advance(1.0 + ANSWER)
    assert stuck.finished
    assert stuck.file_error() == errno.EIO


def test_an_answer_over_its_ceiling_is_too_big() -> None:
    """The driver is told to end the operation, and whichever comes first, its end or the kill, it is EFBIG."""
    x = operation(output_quota=10)
    x.output("stdout", b"x" * 11, 0.5)
    assert x.over_output
    for stream in ("stdout", "stderr"):
        x.output_ended(stream)
    x.status(report(), 1.0)
    x.advance(1.0)
    assert x.file_error() == errno.EFBIG
