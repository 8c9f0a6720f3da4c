"""Streams and transfers on the native backends: memory on both sides, descriptors, and a loop that goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from isandbox import create_sandbox
from isandbox.sync import create_sandbox as create_blocking
from isandbox_backends._shared import fileverbs

pytestmark = pytest.mark.native

MIB = 1 << 20
GROWTH = 32 * MIB
HELPER_GROWTH = 4 * MIB


class Watch:
    """The largest resident size of this process, and of every process below a helper, since it was made."""

    def __init__(self, sandbox: Any) -> None:
        self._me, self._helper = psutil.Process(), psutil.Process(sandbox._core.client.pid)
        self._before = self._me.memory_info().rss
        self._helper_before = self._largest()
        self.growth = self.helper_growth = 0

    def _largest(self) -> int:
        sizes = []
        for process in (self._helper, *self._helper.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                sizes.append(process.memory_info().rss)
        return max(sizes)

    def look(self) -> None:
        self.growth = max(self.growth, self._me.memory_info().rss - self._before)
        self.helper_growth = max(self.helper_growth, self._largest() - self._helper_before)

    def check(self) -> None:
        assert self.growth < GROWTH, f"this process grew by {self.growth >> 20} MiB"
        assert self.helper_growth < HELPER_GROWTH, f"a helper grew by {self.helper_growth >> 10} KiB"


SIZES = [pytest.param(128, id="128 MiB"), pytest.param(1024, id="1 GiB", marks=pytest.mark.full)]


@pytest.mark.parametrize("size", SIZES)
async def test_memory_of_async_streams(size: int) -> None:
    """Neither side holds more than a few chunks, in both directions."""
    async with create_sandbox("local") as sandbox:
        watch = Watch(sandbox)

        async def chunks() -> AsyncIterator[bytes]:
            for number in range(size):
                yield bytes([number % 256]) * MIB
                watch.look()

        await sandbox.files.write("big", chunks())
        count = 0
        async for chunk in sandbox.files.read_chunks("big"):
            count += len(chunk)
            watch.look()
        assert count == size * MIB
        watch.check()


@pytest.mark.parametrize("size", SIZES)
def test_memory_of_blocking_streams(size: int) -> None:
    """The same for the blocking driver."""
    with create_blocking("local") as sandbox:
        watch = Watch(sandbox)

        def chunks() -> Iterator[bytes]:
            for number in range(size):
                yield bytes([number % 256]) * MIB
                watch.look()

        sandbox.files.write("big", chunks())
        count = 0
        for chunk in sandbox.files.read_chunks("big"):
            count += len(chunk)
            watch.look()
        assert count == size * MIB
        watch.check()


@pytest.mark.parametrize("size", SIZES)
async def test_memory_of_transfers(size: int, tmp_path: Path) -> None:
    """A large file goes in and comes back whole through a few pieces at a time."""
    with (tmp_path / "big").open("wb") as file:
        for number in range(size):
            file.write(bytes([number % 256]) * MIB)
    async with create_sandbox("local") as sandbox:
        watch = Watch(sandbox)
        await sandbox.files.upload(tmp_path / "big", "big", on_progress=lambda _: watch.look())
        await sandbox.files.download("big", tmp_path / "back", on_progress=lambda _: watch.look())
        watch.check()
    with (tmp_path / "big").open("rb") as one, (tmp_path / "back").open("rb") as other:
        while piece := one.read(MIB):
            assert other.read(MIB) == piece
        assert other.read(1) == b""


async def test_a_slow_reader_slows_the_reading() -> None:
    """What nobody has asked for yet is in the sandbox, not in this process: a queue of a MiB or so, and the pipe."""
    async with create_sandbox("seccomp") as sandbox:
        await sandbox.files.write("big", bytes(32 * MIB))
        chunks = sandbox.files.read_chunks("big")
        first = await anext(chunks)
        await asyncio.sleep(1.5)  # past every time after which output counts as idle or drained
        process = psutil.Process(sandbox._core.client.pid)  # type: ignore[attr-defined]
        assert len(process.children(recursive=True)) > 0, "the operation still waits"
        assert len(first) + sum([len(chunk) async for chunk in chunks]) == 32 * MIB


async def test_no_descriptor_is_left_by_streams(tmp_path: Path) -> None:
    """Reading that is left early, writing that fails or is cancelled, transfers that are cancelled: nothing stays open."""
    (tmp_path / "big").write_bytes(bytes(24 * MIB))

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(MIB)
            await asyncio.sleep(0)

    async def failing() -> AsyncIterator[bytes]:
        yield b"x"
        raise LookupError

    async with create_sandbox("local") as sandbox:
        await sandbox.files.write("big", bytes(24 * MIB))
        await sandbox.files.download("big", tmp_path / "warm")  # the threads of the loop are made
        assert (await sandbox.exec("sleep 0.2 & true")).lingering  # and the one that drains what nobody reads
        await sandbox.exec("sleep 0.5")  # until it has drained that
        before = open_files()
        for _ in range(3):
            chunks = sandbox.files.read_chunks("big")
            await anext(chunks)
            await chunks.aclose()  # type: ignore[attr-defined]
            with pytest.raises(LookupError):
                await sandbox.files.write("f", failing())
            for call in (
                sandbox.files.write("endless", endless()),
                sandbox.files.upload(tmp_path / "big", "up"),
                sandbox.files.download("big", tmp_path / "down"),
            ):
                task = asyncio.create_task(call)
                await asyncio.sleep(0.02)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        for _ in range(200):  # what a killed command had written is drained by a thread that takes its time
            if open_files() == before:
                break
            await asyncio.sleep(0.05)
        assert open_files() == before
        assert [name for name in os.listdir(tmp_path) if name.startswith(".isandbox")] == []


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("kind", ["seccomp", "local"])
def test_a_listing_is_bounded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with more entries than a listing may bring is EFBIG, not memory; with room for them it is listed."""
    with create_blocking(kind) as sandbox:
        sandbox.exec("mkdir many && cd many && i=0; while [ $i -lt 3000 ]; do : > file-$i; i=$((i+1)); done", check=True)
        assert len(sandbox.files.list("many")) == 3000
        monkeypatch.setattr(fileverbs, "LIST_CEILING", 100_000)
        with pytest.raises(OSError, match="many") as caught:
            sandbox.files.list("many")
        assert caught.value.errno == 27  # EFBIG
        assert len(sandbox.files.list(".")) == 1


async def test_a_long_listing_leaves_the_loop_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a directory is a command decides: a long answer is read in another thread, a short one at once."""
    threads: list[bool] = []
    real = fileverbs._listing

    def listing(raw: bytes, directory: str) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return real(raw, directory)

    monkeypatch.setattr(fileverbs, "_listing", listing)
    async with create_sandbox("local") as sandbox:
        await sandbox.exec("mkdir many && cd many && i=0; while [ $i -lt 3000 ]; do : > file-$i; i=$((i+1)); done", check=True)
        assert len(await sandbox.files.list(".")) == 1
        assert len(await sandbox.files.list("many")) == 3000
    assert threads == [True, False]


@pytest.mark.parametrize("helper", ["native", "python"])
def test_a_time_beyond_all_calendars(helper: str) -> None:
    """A command may give a file any time that the file system keeps: the verbs still work, and say the last that they can."""
    with create_blocking("local", helper=helper) as sandbox:
        path = Path(sandbox.info.workspace or "", "far")
        sandbox.write("far", b"x")
        for seconds in (1 << 40, 10_000_000_000, -(1 << 40), 1_000_000_000):
            os.utime(path, (0, seconds))
            kept = path.stat().st_mtime  # what the file system has made of it
            wanted = max(-9_223_372_036, min(kept, 9_223_372_036))
            assert sandbox.stat("far").mtime == wanted
            assert [entry.mtime for entry in sandbox.list_dir(".")] == [wanted]
        assert wanted == 1_000_000_000
