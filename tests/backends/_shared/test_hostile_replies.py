"""A helper that says anything, in any order: the host gets a well-formed result or one of a few errors, and keeps little."""

from __future__ import annotations

import errno
import os
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from isandbox import BackendUnavailableError, ProcessSpec, SandboxLostError
from isandbox_backends._shared import fileverbs
from isandbox_backends._shared.client import HelperClient, HelperStartError
from isandbox_backends._shared.exchange import Exchange
from isandbox_backends._shared.helper import HelperProgram
from isandbox_backends._shared.protocol import (
    PROTOCOL_VERSION,
    REPLY_MAX,
    Decoder,
    Exit,
    Goodbye,
    Hello,
    Launched,
    Layer,
    Omitted,
    ProtocolError,
    Report,
    Started,
    StartFailed,
    Verdict,
)
from isandbox_backends.seccomp.layers import OfIds, expected, told, verified

LARGEST = (1 << 32) - 1
READ = 4096  # what the host takes from a socket or pipe at a time
numbers = st.one_of(
    st.sampled_from([0, 1, 2, 5, 64, 4095, 4096, 1 << 22, (1 << 22) + 1, 1 << 31, LARGEST]), st.integers(0, LARGEST)
)
wide = st.one_of(st.sampled_from([0, 1, 1 << 63, (1 << 64) - 1]), st.integers(0, (1 << 64) - 1))
# Exit codes, signals with and without core, stopped, continued, no status of a kernel's, negative ones.
statuses = st.one_of(
    st.sampled_from(
        [0, 1 << 8, 255 << 8, 9, 64, 65, 126, 0x7F, 0x8B, 0x80, 0x137F, 0xFFFF, 0x109, 1 << 16, -1, -256, -(1 << 31)]
    ),
    st.integers(-(1 << 31), (1 << 31) - 1),
)


def frame(kind: int, payload: bytes, descriptors: int = 0) -> bytes:
    return struct.pack("<IHH", len(payload), kind, descriptors) + payload


def exit_frame(
    *, id: int = 1, status: int = 0, fault: int = 0, limits: int = 0, number: int = 0, stage: int = 0, **rest: int
) -> bytes:
    """The one place that knows the layout of a report."""
    words = (rest.get("lingering", 0), rest.get("rss", 0), rest.get("user", 0), rest.get("system", 0), rest.get("duration", 0))
    return frame(5, struct.pack("<IiIIIIIIQQQ", id, status, fault, limits, number, stage, *words))


small = st.integers(0, 7)
exits = st.builds(
    exit_frame, id=numbers, status=statuses, fault=st.one_of(small, numbers), limits=st.one_of(small, numbers), number=st.one_of(small, numbers),
    stage=st.one_of(small, numbers), lingering=numbers, rss=numbers, user=wide, system=wide, duration=wide,
)  # fmt: skip
starteds = st.builds(lambda number, pid: frame(4, struct.pack("<IIIIQQ", number, pid, 0, 0, 0, 0)), numbers, numbers)
texts = st.binary(max_size=60)
reports = st.lists(
    st.builds(partial(struct.pack, "<HHI"), st.integers(0, 20), st.sampled_from([0, 0, 1, 2, 3, 0xFFFF]), numbers), max_size=20
)


def hello_frame(
    version: int, words: tuple[int, int, int] = (1, 0, 0), count: int | None = None, reports: Sequence[bytes] = ()
) -> bytes:
    """``words``: features, Landlock ABI, filter."""
    announced = len(reports) if count is None else count
    return frame(1, struct.pack("<IIIIIIQ", version, *words[:2], announced, 0, 0, words[2]) + b"".join(reports))


versions = st.one_of(st.just(PROTOCOL_VERSION), numbers)
hellos = st.builds(hello_frame, versions, st.tuples(numbers, numbers, wide), st.one_of(st.none(), numbers), reports)
others = st.one_of(
    hellos,
    st.builds(lambda number, text: frame(2, struct.pack("<I", number) + text), numbers, texts),
    st.builds(lambda pid: frame(3, struct.pack("<I", pid)), numbers),
    st.builds(lambda pid, door: frame(3, struct.pack("<II", pid, door)), numbers, numbers),
    st.builds(lambda reason: frame(6, struct.pack("<I", reason)), numbers),
    st.builds(lambda number, out, err: frame(7, struct.pack("<IIQQ", number, 0, out, err)), numbers, wide, wide),
    st.builds(frame, st.integers(0, 65535), texts, st.one_of(st.just(0), st.integers(0, 65535))),
)


@st.composite
def damaged(draw: Any) -> bytes:
    """A frame with some bytes of it other, missing or doubled."""
    raw = bytearray(draw(st.one_of(exits, starteds, others)))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, max(0, len(raw) - 1)))
        raw[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=6))
    return bytes(raw)


def check_reply(reply: Any) -> None:
    assert isinstance(reply, (Hello, StartFailed, Launched, Started, Exit, Goodbye, Omitted))
    if isinstance(reply, (Launched, Started)):
        assert 0 < reply.pid <= 1 << 22
    if isinstance(reply, Hello):
        assert all(isinstance(layer, Layer) and isinstance(found.verdict, Verdict) for layer, found in reply.layers.items())
        assert reply.contained == (
            reply.layers.get(Layer.PID_NAMESPACE, Report(Verdict.NOT_PLANNED)).verdict == Verdict.ENFORCED
        )
        check_judgement(reply)
    if isinstance(reply, StartFailed):
        assert 0 <= reply.errno <= 4095
        os.strerror(reply.errno)


def check_judgement(hello: Hello) -> None:
    """Whatever it says: every layer is told, and a sandbox is only made when each that is required is said to be in force."""
    wanted = expected(OfIds(True, "enforced", "enforced"), filter=77)
    words = told(wanted, hello)
    assert set(words) == {*(layer.word for layer in Layer), "distinct_ids"}
    assert all(word.startswith(("enforced", "absent (")) and len(word) < 200 for word in words.values())
    in_force = hello.filter == 77 and all(word.startswith("enforced") for word in words.values())
    try:
        assert verified(wanted, hello) == words
        assert in_force
    except BackendUnavailableError:
        assert not in_force


@given(hellos)
def test_hostile_hellos(raw: bytes) -> None:
    """A hello of any numbers is refused as a whole, or told and judged layer by layer."""
    try:
        for reply in Decoder().feed(raw):
            check_reply(reply)
    except ProtocolError:
        pass


@given(st.lists(damaged(), max_size=12), st.lists(st.integers(1, READ), min_size=1, max_size=5))
def test_damaged_frames_in_pieces(frames: list[bytes], sizes: list[int]) -> None:
    """Each is a record with sane numbers or a ProtocolError, and after that error everything is one."""
    raw, decoder, turn, broken = b"".join(frames), Decoder(), 0, False
    while raw:
        piece, raw = raw[: sizes[turn % len(sizes)]], raw[sizes[turn % len(sizes)] :]
        turn += 1
        try:
            for reply in decoder.feed(piece):
                check_reply(reply)
                assert not broken
        except ProtocolError:
            broken = True
        assert len(decoder._buffer) <= REPLY_MAX + 8
        assert not broken or not decoder._buffer


class HostileHelper(RuleBasedStateMachine):
    """One command, and a helper that talks about it as it likes."""

    @initialize(timeout=st.sampled_from([None, 0.5, 4_200_000.0]), merge=st.booleans(), quota=st.sampled_from([None, 100]))
    def start(self, timeout: float | None, merge: bool, quota: int | None) -> None:
        self.now = 10.0
        spec = ProcessSpec(argv=("prog",), timeout=timeout, stderr="merge" if merge else "separate", max_output=50)
        self.exchange = Exchange(spec, self.now, output_quota=quota)
        self.streams: list[Any] = ["stdout"] if merge else ["stdout", "stderr"]
        self.first: Any = None

    @rule(raw=st.one_of(exits, starteds, others, damaged(), st.binary(max_size=200)), times=st.sampled_from([1, 1, 1, 2, 50]))
    def speak(self, raw: bytes, times: int) -> None:
        raw *= times
        for at in range(0, len(raw), READ):
            self.exchange.status(raw[at : at + READ], self.now)

    @rule(data=st.binary(max_size=80), which=st.integers(0, 1))
    def write(self, data: bytes, which: int) -> None:
        self.exchange.output(self.streams[which % len(self.streams)], data, self.now)

    @rule(which=st.integers(0, 1))
    def end_of_output(self, which: int) -> None:
        self.exchange.output_ended(self.streams[which % len(self.streams)])

    @rule()
    def end_of_status(self) -> None:
        self.exchange.status(b"", self.now)

    @rule(step=st.sampled_from([0.0, 0.05, 0.2, 2.0, 10.0, 5e6]))
    def pass_time(self, step: float) -> None:
        self.now += step
        self.exchange.advance(self.now)

    @rule(call=st.sampled_from(["pause", "resume", "expect_end"]))
    def host(self, call: str) -> None:
        getattr(self.exchange, call)(self.now)

    @invariant()
    def little_is_kept(self) -> None:
        assert len(self.exchange._told) <= 2 * (REPLY_MAX + 8)  # one reply of each kind is much less than a whole one

    @precondition(lambda self: self.exchange.finished)
    @invariant()
    def the_end_is_well_formed(self) -> None:
        """And stays what it was, whatever is said after it."""
        try:
            result: Any = self.exchange.result()
        except SandboxLostError as error:
            result = type(error)
        except OSError as error:
            result = error.errno
        if isinstance(result, int):
            assert 0 < result <= 4095
        elif not isinstance(result, type):
            assert 0 <= result.exit_code <= 255
            assert result.signal is None or (1 <= result.signal <= 64 and result.exit_code == 128 + result.signal)
            assert result.fault in {None, "timeout", "oom", "cpu", "output", "cancelled", "killed"}
            assert min(result.duration, result.cpu_time, result.max_rss) >= 0
            assert len(result.stdout_bytes) + len(result.stderr_bytes) < 300
            result = (result.exit_code, result.signal, result.fault, result.start_error, result.duration, self.exchange.pid)
        self.first = self.first or result
        assert result == self.first
        try:
            assert 0 <= self.exchange.file_error() <= 4095
        except SandboxLostError:
            assert result is SandboxLostError


TestHostileHelper = HostileHelper.TestCase
TestHostileHelper.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("status", [-1, 0x137F, 0xFFFF, 65, 127, 0x80, 0x109, 1 << 16, -(1 << 31)])
def test_a_status_that_is_no_end_is_no_result(status: int) -> None:
    """Stopped, continued, a signal past the last one, an exit code with a signal: a loss, not an exit code made of its bits."""
    exchange = Exchange(ProcessSpec(argv=("prog",), timeout=None), 0.0)
    exchange.status(exit_frame(status=status), 1.0)
    with pytest.raises(SandboxLostError, match="protocol"):
        exchange.result()


def test_a_flood_after_the_report_is_not_kept() -> None:
    """The result stands, and what comes after it takes no memory, whether it parses or not."""
    for flood in (exit_frame(status=9) * 50, b"\xff" * READ, frame(4, struct.pack("<IIIIQQ", 1, 77, 0, 0, 0, 0)) * 200):
        exchange = Exchange(ProcessSpec(argv=("prog",), timeout=None), 0.0)
        exchange.status(exit_frame(status=3 << 8), 1.0)
        for _ in range(200):
            exchange.status(flood[:READ], 1.0)
        assert len(exchange._told) <= READ
        exchange.advance(10.0)
        assert (exchange.result().exit_code, exchange.pid) == (3, None)


def entry(mode: int, size: int, mtime: int, ids: tuple[int, int], tail: bytes) -> bytes:
    raw = struct.pack("<IQqII", mode, size, mtime, *ids) + tail
    return struct.pack("<I", len(raw)) + raw


entries = st.builds(
    entry, numbers, wide, st.integers(-(1 << 63), (1 << 63) - 1), st.tuples(numbers, numbers),
    st.one_of(st.binary(max_size=80), st.sampled_from([b"", b"\0", b"a", b"a/b\0\0", b"..\0", b".\0x\0", b"/etc/passwd\0\0", b"a\0" * 50])),
)  # fmt: skip


@given(st.lists(entries, max_size=6), st.integers(0, 60), st.binary(max_size=8))
def test_hostile_listings(parts: list[bytes], cut: int, more: bytes) -> None:
    """Every name that comes out is one of a file in the directory that was asked for; sizes, times and modes are numbers."""
    raw = b"".join(parts)
    raw = raw[: len(raw) - cut] + more if cut else raw
    for call in (fileverbs.list_dir("some/dir"), fileverbs.stat_entry("some/dir")):
        try:
            parsed: Any = call.parse(raw)
        except ProtocolError:
            continue
        for info in parsed if isinstance(parsed, list) else [parsed]:
            assert info.kind in {"file", "directory", "symlink", "other"}
            assert 0 <= info.mode <= 0o7777
            assert (info.target is None) == (info.kind != "symlink")
            assert stat.S_IMODE(info.mode) == info.mode
            assert "/" not in info.name
            assert info.name not in {"", ".", ".."}
            assert info.path in {f"some/dir/{info.name}", "some/dir"}


SPEAKER = """#!{python} -IS
import os, socket
os.write(4, bytes.fromhex("{raw}"))
socket.socket(fileno=4).recv(1)
"""


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="this system cannot ask whose child a process is")
def test_the_pid_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    """A helper that calls another process the sandbox's first one: that process is neither opened nor killed."""
    with subprocess.Popen(["/bin/sh", "-c", "sleep 60 & echo; wait"], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        (stranger,) = psutil.Process(shell.pid).children()
        raw = frame(3, struct.pack("<I", stranger.pid)) + hello_frame(PROTOCOL_VERSION)
        program = tmp_path / "helper"
        program.write_text(SPEAKER.format(python=sys.executable, raw=raw.hex()))
        program.chmod(0o700)
        client = HelperClient(HelperProgram(str(program)), [])
        try:
            with pytest.raises(HelperStartError, match="before it was launched"):
                client.wait_ready(time.monotonic() + 30)
            client.give_up()
            assert stranger.is_running()
            assert stranger.status() != psutil.STATUS_ZOMBIE
        finally:
            client.give_up()
            stranger.kill()
            shell.kill()


def test_errnos_have_names() -> None:
    """What comes out as OSError can be compared with the errno module's numbers."""
    exchange = Exchange(ProcessSpec(argv=("prog",), timeout=None), 0.0)
    exchange.status(exit_frame(status=127 << 8, number=errno.ENOTDIR, stage=3), 1.0)
    exchange.advance(2.0)
    with pytest.raises(NotADirectoryError):
        exchange.result()
