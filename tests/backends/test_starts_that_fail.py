"""A start that fails, is cancelled or runs out of something: one clear error, and nothing is left."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from isandbox import SandboxError, create_sandbox, sync
from isandbox_backends._shared import client, helper, portable, start
from isandbox_backends._shared.helper import HelperProgram

pytestmark = [pytest.mark.native, pytest.mark.parametrize("backend", ["seccomp", "local"])]

SILENT = """#!{python} -IS
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])
time.sleep(60)  # not for ever, should a test of it fail
"""
HELLO_FIRST = """#!{python} -IS
import os, struct, time
os.write(4, struct.pack("<IHH4I", 16, 1, 0, 1, 1, 0, 0))
time.sleep(60)  # not for ever, should a test of it fail
"""


def held() -> tuple[set[str], set[int], set[str]]:
    """Descriptors, children (zombies too) and temporary directories of this process."""
    import tempfile

    children = {child.pid for child in psutil.Process().children()}
    places = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("isandbox-")}
    return set(os.listdir("/proc/self/fd")), children, places


@pytest.fixture(autouse=True)
def _leaves_nothing(backend: str) -> Iterator[None]:
    sync.create_sandbox(backend).close()  # what is made once per process is there
    before = held()
    yield
    assert held() == before


def use_helper(monkeypatch: pytest.MonkeyPatch, directory: Path, text: str) -> None:
    program = directory / "helper"
    program.write_text(text.format(python=sys.executable))
    program.chmod(stat.S_IRWXU)
    monkeypatch.setattr(start, "_native", lambda: HelperProgram(str(program)))


@pytest.mark.parametrize("text", [SILENT, HELLO_FIRST])
def test_a_helper_that_never_answers(backend: str, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A helper that says nothing, or not what it must, and does not end either: an error soon after `start_timeout`."""
    use_helper(monkeypatch, tmp_path, text)
    began = time.monotonic()
    with pytest.raises(SandboxError, match="did not start"):
        sync.create_sandbox(backend, start_timeout=0.5)
    with pytest.raises(SandboxError, match="did not start"):
        asyncio.run(awaited(backend, start_timeout=0.5))
    assert time.monotonic() - began < 30


async def awaited(backend: str, **options: object) -> None:
    async with create_sandbox(backend, **options):
        pass


@pytest.mark.parametrize("rounds", range(8))
def test_a_creation_that_is_cancelled(backend: str, rounds: int) -> None:
    """Cancelled after no, one or some rounds of the loop, at whatever the helper is doing by then."""

    async def main() -> None:
        task = asyncio.create_task(awaited(backend))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=20)
        assert task.cancelled() or task.exception() is None  # a fast machine is done by then

    asyncio.run(main())


def failing(number: int) -> object:
    def fail(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("place", "name", "number"),
    [
        (os, "posix_spawn", errno.EAGAIN),
        (os, "posix_spawn", errno.ENOMEM),
        (os, "memfd_create", errno.ENOMEM),
        (client.socket, "socketpair", errno.EMFILE),
        (client, "open_process", errno.EMFILE),
        (portable.fcntl, "fcntl", errno.ENOMEM),
    ],
)
def test_exhaustion_at_a_start(backend: str, place: object, name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptors, processes or memory: a SandboxError that says so, at once, in both interfaces."""
    assert helper.helper_path()
    began = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(place, name, failing(number))
        with pytest.raises(SandboxError, match=os.strerror(number)):
            sync.create_sandbox(backend)
    if place is not client.socket:  # an event loop needs one itself

        async def main() -> None:
            with monkeypatch.context() as patch:
                patch.setattr(place, name, failing(number))
                with pytest.raises(SandboxError, match=os.strerror(number)):
                    await create_sandbox(backend)

        asyncio.run(main())
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("room", range(14))
def test_few_descriptors(backend: str, room: int) -> None:
    """With room for a few descriptors only, a sandbox is made and used, or SandboxError says what is missing."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    blockers = [os.open("/dev/null", os.O_RDONLY) for _ in range(highest)]
    top = blockers[-1] + 1
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (top + room, hard))
        try:
            with sync.create_sandbox(backend, quotas=None) as sandbox:
                assert sandbox.exec(["true"]).exit_code == 0
        except SandboxError as error:
            assert "open files" in str(error)  # noqa: PT017
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in blockers:
            os.close(fd)


def test_an_interrupt_while_a_sandbox_ends(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in `close` goes on, and nothing is left all the same."""
    sandbox = sync.create_sandbox(backend)
    ended, first = client.HelperClient._ended, []

    def interrupted(self: client.HelperClient, timeout: float) -> bool:
        if not first:
            first.append(self)
            raise KeyboardInterrupt
        return ended(self, timeout)

    monkeypatch.setattr(client.HelperClient, "_ended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sandbox.close()


def test_an_interrupt_in_the_created_event(backend: str) -> None:
    """Ctrl-C after the helper is ready, before anybody has the handle."""

    def on_event(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sync.create_sandbox(backend, on_event=on_event)
