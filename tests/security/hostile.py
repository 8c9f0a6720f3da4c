"""One way to put a hostile command to a sandbox, through either interface, and to look at what is left.

Loaded by conftest.py: test directories are no packages.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil

import isandbox
from isandbox import ExecResult, SandboxLostError, sync


class Blocking:
    """A sandbox of the blocking interface."""

    def __init__(self, backend: str, **options: Any) -> None:
        self.box: Any = sync.create_sandbox(backend, **options)

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return function(*args, **options)

    def close(self) -> None:
        self.box.close()


class Asynchronous:
    """A sandbox of the async interface, used from outside its loop."""

    def __init__(self, backend: str, **options: Any) -> None:
        self.runner = asyncio.Runner()

        async def make() -> Any:
            return await isandbox.create_sandbox(backend, **options)

        self.box: Any = self.runner.run(make())

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        async def wait() -> Any:
            return await function(*args, **options)

        return self.runner.run(wait())

    def close(self) -> None:
        self.call(self.box.close)
        self.runner.close()


class Target:
    """A sandbox to attack. Its calls return the result, or the `SandboxLostError` that was raised."""

    def __init__(self, interface: str, backend: str, **options: Any) -> None:
        self.driver = {"async": Asynchronous, "blocking": Blocking}[interface](backend, **options)
        self.helper: int = self.driver.box._core.client.pid

    def exec(self, command: Any, *, timeout: float = 20, **options: Any) -> ExecResult | SandboxLostError:
        try:
            return self.driver.call(self.driver.box.exec, command, timeout=timeout, **options)  # type: ignore[no-any-return]
        except SandboxLostError as error:
            return error

    def start(self, command: Any, **options: Any) -> Any:
        return self.driver.call(self.driver.box.start, command, **options)

    def wait(self, process: Any) -> ExecResult | SandboxLostError:
        try:
            return self.driver.call(process.wait)  # type: ignore[no-any-return]
        except SandboxLostError as error:
            return error

    def usable(self) -> bool:
        """Whether a command runs as it should; false when the sandbox is reported lost. Anything else fails."""
        answer = self.exec("echo usable")
        if isinstance(answer, SandboxLostError):
            assert isinstance(self.exec("true"), SandboxLostError), "lost and found again"
            return False
        assert (answer.stdout, answer.exit_code, answer.fault) == ("usable\n", 0, None)
        return True

    def alive(self) -> list[str]:
        """Processes below the helper that still run after a moment, which ended ones have to be reaped in."""
        return soon_empty(lambda: [process for process in descendants(self.helper) if process.name() != "isandbox-helper"])


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def marked(word: str) -> list[psutil.Process]:
    """Processes of this machine with the word in an argument, but for this one and those that started it."""
    found = []
    mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid not in mine and any(word in argument for argument in process.cmdline()):
                found.append(process)
    return found


def soon_empty(look: Callable[[], list[psutil.Process]], seconds: float = 10) -> list[str]:
    """What is still there after ``seconds``, or nothing as soon as nothing is."""
    end = time.monotonic() + seconds
    while True:
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            found = [f"{process.pid} {process.name()}" for process in look()]
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.02)


@contextlib.contextmanager
def target(interface: str, backend: str, **options: Any) -> Iterator[Target]:
    """Opened, and closed in the end; then nothing may be alive."""
    opened = Target(interface, backend, **options)
    try:
        yield opened
    finally:
        below = descendants(opened.helper)
        opened.driver.close()
        left = soon_empty(lambda: [process for process in below if process.is_running() and process.status() != "zombie"])
    assert left == [], "outlived the sandbox"
