"""What every group of promises stands on."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import secrets
import signal
import time
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import psutil
import pytest
import pytest_asyncio

import isandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from isandbox import ISandbox, sync
    from isandbox.testing.contract.gaps import Gap

T = TypeVar("T")

# The options of an owned sandbox without an end, whatever a class makes otherwise.
OWNED: dict[str, Any] = {"detached": False, "lifetime": None}


class Contract:
    """``create`` makes a sandbox; ``lose`` ends one behind its back. One sandbox serves a whole class.

    ``gaps`` are the promises that this backend is known not to keep: strict expected failures, each with its decision.
    """

    gaps: ClassVar[tuple[Gap, ...]] = ()
    verbs: ClassVar[tuple[str, ...]] = ()
    """Of a group of promises: the optional verbs that a backend takes it on with, by claiming them in its record."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for gap in cls.gaps:
            if not hasattr(cls, f"test_{gap.promise}"):
                raise TypeError(f"{cls.__name__}.gaps: there is no promise {gap.promise!r}")

    @classmethod
    def create(cls, **options: Any) -> Any:
        """What `isandbox.create_sandbox` returns for the backend under test, with these options."""
        raise NotImplementedError

    @classmethod
    def create_sync(cls, **options: Any) -> sync.ISandbox:
        """The same backend behind `isandbox.sync`. What ``create`` returns says how, unless it is not from `create_sandbox`."""
        return blocking_of(cls.create(**options))

    @classmethod
    def connect(cls, id: str, **options: Any) -> Any:
        """What `isandbox.connect` returns."""
        return isandbox.connect(id, **options)

    @classmethod
    async def list_sandboxes(cls, **filters: Any) -> list[isandbox.SandboxSummary]:
        return await isandbox.list_sandboxes(**filters)

    @classmethod
    async def kill_sandbox(cls, id: str) -> bool:
        return await isandbox.kill_sandbox(id)

    @classmethod
    async def reap(cls) -> isandbox.ReapReport:
        return await isandbox.reap()

    async def lose(self, sandbox: ISandbox) -> None:
        """End the sandbox from outside, as a crash of its host would."""
        raise NotImplementedError

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def sandbox(cls) -> AsyncIterator[ISandbox]:
        async with cls.create() as sandbox:
            yield sandbox

    @pytest.fixture(scope="class")
    @classmethod
    def blocking(cls) -> Iterator[sync.ISandbox]:
        with cls.create_sync() as sandbox:
            yield sandbox

    @pytest.fixture(autouse=True)
    def _claimed(self, request: pytest.FixtureRequest) -> None:
        """Skip what the backend's record does not claim: another promise says that it is refused then."""
        name = getattr(request.node, "originalname", request.node.name)
        group = next(cls for cls in type(self).__mro__ if name in vars(cls))
        if verbs := vars(group).get("verbs"):
            sandbox = request.getfixturevalue("sandbox")
            missing = [verb for verb in verbs if verb not in sandbox.info.capabilities.verbs]
            if missing:
                pytest.skip(f"this {sandbox.info.backend} backend does not claim the verb {missing[0]!r}")

    @pytest.fixture(autouse=True)
    def _known_gap(self, request: pytest.FixtureRequest) -> None:
        name = getattr(request.node, "originalname", request.node.name).removeprefix("test_")
        for gap in self.gaps:
            if gap.promise == name:
                request.node.add_marker(pytest.mark.xfail(reason=f"{gap.reason} ({gap.decision})", strict=True))


def blocking_of(made: Any) -> sync.ISandbox:
    """A blocking sandbox of the backend and options that ``made``, a value of ``create``, stands for."""
    from isandbox.factory import Creation
    from isandbox.testing.contract.over_sync import OverSyncCreation

    if isinstance(made, OverSyncCreation):
        return made.make()
    if not isinstance(made, Creation):
        raise TypeError("create() does not return what create_sandbox() returns: write create_sync() too")
    return made._backend.create_blocking(made._request)  # noqa: SLF001 - of the same package


def promises(group: type) -> Iterator[tuple[str, str]]:
    """``(name, sentence)`` of every promise in a group, in the order they are written."""
    for name, member in vars(group).items():
        if name.startswith("test_"):
            yield name.removeprefix("test_"), " ".join((inspect.getdoc(member) or "").split())


def marker() -> str:
    """Seconds for a ``sleep`` that nobody else on the machine sleeps: where /proc is the host's, others are seen too."""
    return f"7311.{secrets.randbelow(10**9):09}"


async def processes(sandbox: ISandbox, marker: str) -> list[str]:
    """Command lines inside that hold ``marker``, as the sandbox's own /proc shows them."""
    script = (
        "for p in /proc/[0-9]*; do c=$(tr '\\0' ' ' < $p/cmdline 2>/dev/null); "
        f'case "$c" in *\'for p in\'*) ;; *{marker}*) echo "$c";; esac; done'
    )
    result = await sandbox.exec(script, timeout=20)
    assert result.exit_code == 0, result
    return result.stdout.splitlines()


def host_command_lines() -> list[str]:
    """Command lines of every process that this machine shows us, our own among them."""
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):  # it ended while it was looked at
            continue
    return lines


async def until(condition: Callable[[], Any], what: str) -> None:
    """Look again and again until it holds; half a minute is a failure."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, f"still not: {what}"
        await asyncio.sleep(0.02)


class TooSlowError(Exception):
    """A life was over before the test had done what it wanted to do in it."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """What must be done before so many seconds are over. What fails because they were raises `TooSlowError`; what fails in their
    first half does so for another reason.
    """
    start = time.monotonic()
    try:
        yield
    except (AssertionError, OSError, isandbox.SandboxError) as error:
        if time.monotonic() - start < seconds / 2:
            raise
        raise TooSlowError(f"{seconds} s were over") from error


LIVES = (1.0, 5.0, 20.0)
"""Seconds: where a busy machine is too slow for a short life, the test is done with a longer one."""


def in_time(begin: Callable[[float], T]) -> T:
    """What ``begin`` returns with the first of `LIVES` that is long enough for what it does `within` it."""
    for life in LIVES[:-1]:
        with contextlib.suppress(TooSlowError):
            return begin(life)
    return begin(LIVES[-1])


async def in_time_async(begin: Callable[[float], Awaitable[T]]) -> T:
    """The same for a coroutine function."""
    for life in LIVES[:-1]:
        with contextlib.suppress(TooSlowError):
            return await begin(life)
    return await begin(LIVES[-1])


def in_forked_child(function: Callable[[], object]) -> str:
    """The name of what ``function`` raises in a fork of this process, ``"nothing"``, or ``"hangs"`` after a minute.

    Empty for a child that has been killed before it could say anything.
    """
    return forked(function)()


def forked(function: Callable[[], object]) -> Callable[[], str]:
    """Begin that; the call of what is returned waits for the child and says it."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads: that is the point
        pid = os.fork()
    if pid == 0:  # never back into the tests
        try:
            function()
            said = "nothing"
        except BaseException as error:
            said = type(error).__name__
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    return lambda: _said(pid, reader)


def _said(pid: int, reader: int) -> str:
    end = time.monotonic() + 60
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reader)
            return "hangs"
        time.sleep(0.01)
    said = os.read(reader, 200).decode()
    os.close(reader)
    return said
