"""`FakeSandbox`: no sandbox at all, for people who test the agent that uses one.

Files are in memory, commands are scripted answers. It keeps the promises about files, names, errors, cancelling and closing
(`SandboxContract`'s groups that need no command); about running anything it promises nothing. With ``detached=True`` it can be
connected to, listed and killed in this process, while `FakeSandbox.installed` lasts.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from isandbox._life import check_seconds
from isandbox._request import request_for
from isandbox._verbs import check_data, check_mode, check_part
from isandbox.backend import CreateRequest
from isandbox.command import Command, ProcessSpec, check_command
from isandbox.errors import SandboxClosedError, SandboxLostError, UnsupportedError
from isandbox.events import Event, EventKind, EventSink
from isandbox.factory import Creation
from isandbox.policy import Capabilities, Policy
from isandbox.records import FileInfo, Metrics, SandboxInfo
from isandbox.sandbox import ISandbox
from isandbox.testing.fake_life import FakeLife, Flag
from isandbox.testing.fake_process import Answer, FakeProcess
from isandbox.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from isandbox.process import IProcess

WORKSPACE = "/workspace"
_NUMBERS = itertools.count(1)
_log = logging.getLogger("isandbox")
_CHUNK = 1 << 16


class UnscriptedCommandError(AssertionError):
    """The agent ran a command that the test has no answer for."""


class FakeSandbox(ISandbox):
    """``files`` fills the workspace. Script answers with `on`; what was run is in ``calls``, as `ProcessSpec`.

    It claims neither kept commands nor terminals: ``background=`` and ``terminal=`` are refused.

    ``request`` is what a backend's ``create`` gets; with it the fake tells of its life and shows what was asked for.
    """

    backend: ClassVar[str] = "fake"
    capabilities: ClassVar[Capabilities] = Capabilities(
        isolation="none", verbs=frozenset({"detach", "lifetime", "renew"}), weaknesses=("runs nothing",)
    )

    def __init__(
        self, files: Mapping[str, str | bytes] | None = None, *, name: str | None = None, request: CreateRequest | None = None
    ) -> None:
        self.calls: list[ProcessSpec] = []
        self._answers: list[tuple[tuple[str, ...] | str, Answer, float]] = []
        self._default: Answer | None = None
        self._closed, self._told, self._over = False, False, Flag()
        self._owner = os.getpid()
        self._store = MemoryFiles(WORKSPACE)
        for path, data in (files or {}).items():
            self._store.write(path, data.encode() if isinstance(data, str) else data, None, append=False)
        request = request or CreateRequest(Policy())
        self._on_event = request.on_event
        self._info = SandboxInfo(
            id=name or f"{self.backend}-{next(_NUMBERS)}",
            backend=self.backend,
            isolation=self.capabilities.isolation,
            workspace=WORKSPACE,
            created_at=datetime.now(UTC),
            capabilities=self.capabilities,
            quotas=request.policy.quotas,
            waived=request.policy.waive,
            labels=request.labels,
        )
        self.life = FakeLife(request, self._info)
        if request.detached:
            self.life.origin = self._copy(None)
        self.life.handles.add(self)
        self._emit("created", backend=self.backend)

    def another(self, on_event: EventSink | None, *, connected: bool) -> FakeSandbox:
        """A second handle on the same sandbox, with the same files, answers and ``calls``."""
        made = self._copy(on_event)
        made.connected = connected
        self.life.use()
        self.life.handles.add(made)
        made.notify("connected", {})
        return made

    def _copy(self, on_event: EventSink | None) -> FakeSandbox:
        made = type(self).__new__(type(self))
        shared = {name: value for name, value in vars(self).items() if name != "files"}
        own = {"_closed": False, "_told": False, "_over": Flag(), "_on_event": on_event, "_owner": os.getpid()}
        made.__dict__.update(shared | own)
        return made

    @classmethod
    @contextmanager
    def installed(cls, files: Mapping[str, str | bytes] | None = None) -> Iterator[None]:
        """While this lasts ``create_sandbox("fake")`` makes fakes with these ``files``, and `connect`, `list_sandboxes`,
        `kill_sandbox` and `reap` see the fakes that were made so, and no real sandbox unless its type or id is named.
        """
        from isandbox._registry import stand_in
        from isandbox.testing.fake_backend import FakeBackend

        backend = FakeBackend(cls, files)
        try:
            with stand_in(cls.backend, backend):
                yield
        finally:
            backend.register.end()

    @classmethod
    def create(cls, files: Mapping[str, str | bytes] | None = None, **options: Any) -> Creation:
        """As `isandbox.create_sandbox`, with its options and their checks: ``await`` it, or use it with ``async with``.

        A quota, a mount or a network that is asked for is `UnsupportedError`: nothing is enforced where nothing runs.
        """
        from isandbox.testing.fake_backend import FakeBackend, installed_register

        backend = FakeBackend(cls, files, installed_register(cls.backend))
        return Creation(backend, request_for(backend, **options))

    def on(self, command: Command, answer: Answer, *, delay: float = 0.0) -> FakeSandbox:
        """Answer this exact command: a result, a text or bytes for stdout, or a function of the `ProcessSpec`.

        ``delay`` seconds pass first; a time-out below it is a time-out, a cancellation in it is one. The newest answer for
        a command wins. Returns self.
        """
        argv, script = check_command(command)
        self._answers.append((argv if script is None else script, answer, delay))
        return self

    def otherwise(self, answer: Answer) -> FakeSandbox:
        """Answer every command that has no answer of its own; without this they raise `UnscriptedCommandError`."""
        self._default = answer
        return self

    @property
    def info(self) -> SandboxInfo:
        return self._info

    async def spawn(self, spec: ProcessSpec) -> IProcess:
        self.check_open()
        if spec.user is not None:
            raise UnsupportedError(f"user={spec.user!r}: a fake sandbox has no users", option="user", backend=self.backend)
        self.calls.append(spec)
        key = spec.argv if spec.script is None else spec.script
        answer, delay = self._default, 0.0
        for command, scripted, scripted_delay in self._answers:
            if command == key:
                answer, delay = scripted, scripted_delay
        if answer is None:
            raise UnscriptedCommandError(f"no answer is scripted for {key!r}")
        number = len(self.calls)
        self._emit("exec_started", id=number)
        self.life.use(delay if spec.timeout is None else min(delay, spec.timeout))
        return FakeProcess(spec, answer, delay, self, lambda: self._emit("exec_ended", id=number))

    async def stat(self, path: str, *, user: str | None = None) -> FileInfo:
        self._check(user)
        return self._store.stat(path)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> bytes:
        self._check(user)
        check_part(offset, limit)
        data = self._store.read(path)
        return data[offset:] if limit is None else data[offset : offset + limit]

    async def read_chunks(
        self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None
    ) -> AsyncIterator[bytes]:
        data = await self.read(path, offset=offset, limit=limit, user=user)
        for start in range(0, len(data), _CHUNK):
            self.check_open()
            yield data[start : start + _CHUNK]
            await asyncio.sleep(0)

    async def write(
        self,
        path: str,
        data: bytes | AsyncIterable[bytes],
        *,
        mode: int | None = None,
        append: bool = False,
        user: str | None = None,
    ) -> None:
        self._check(user)
        check_mode(mode)
        if not isinstance(data, AsyncIterable):
            self._store.write(path, check_data(data), mode, append=append)
            return
        self._store.write(path, b"", mode, append=append)
        async for chunk in data:
            self.check_open()
            self._store.write(path, check_data(chunk), mode, append=True)

    async def list_dir(self, path: str, *, user: str | None = None) -> list[FileInfo]:
        self._check(user)
        return self._store.list_dir(path)

    async def make_dir(self, path: str, *, parents: bool = False, mode: int | None = None, user: str | None = None) -> None:
        self._check(user)
        check_mode(mode, "make_dir")
        self._store.make_dir(path, parents=parents, mode=mode)

    async def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        self._check(user)
        self._store.remove(path, recursive=recursive)

    async def rename(self, path: str, target: str, *, user: str | None = None) -> None:
        self._check(user)
        self._store.rename(path, target)

    def notify(self, kind: EventKind, data: Mapping[str, str | float | bool | None]) -> None:
        self._emit(kind, **data)

    async def metrics(self) -> Metrics:
        self.check_open()
        return Metrics(processes=0, cpu_time=0.0, memory=0)

    async def renew(self, seconds: float) -> None:
        self.check_open()
        seconds = check_seconds(seconds, "renew")
        if self.life.request.lifetime is None:
            raise UnsupportedError(
                "renew: this sandbox has no lifetime; make it with lifetime=SECONDS", option="renew", backend=self.backend
            )
        self.life.renew(seconds)

    async def detach(self) -> None:
        if self._closed:
            return
        if not self.life.request.detached:
            raise UnsupportedError(
                "detach: an owned sandbox has nobody else; make it with detached=True", option="detach", backend=self.backend
            )
        self._closed = True
        self.wake()
        self._emit("detached")

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.wake()
            self.life.finish("another handle closed it")
            self._emit("closed")

    def wake(self) -> None:
        """Whoever waits in this handle looks whether it is still of use."""
        self._over.set()

    async def over(self) -> None:
        """Back when the handle is closed or the sandbox has ended; `check_open` then says which."""
        while not self._over.is_set() and not self.life.end():
            left = self.life.left()
            with suppress(TimeoutError):  # soon again, where there is an end: it may be brought forward
                await asyncio.wait_for(self._over.wait(), None if left is None else min(left, 0.05))

    def _check(self, user: str | None) -> None:
        self.check_open()
        if user is not None:
            raise UnsupportedError(
                f"user={user!r}: a fake sandbox has one user; leave it out", option="user", backend=self.backend
            )

    def check_open(self) -> None:
        """Raise `SandboxClosedError` or `SandboxLostError` unless the sandbox lives and this handle is of use."""
        if self._closed or os.getpid() != self._owner:
            raise SandboxClosedError(f"sandbox {self._info.id} is closed")
        if how := self.life.end():
            if not self._told:
                self._told = True
                self._emit("lost", reason=how)
            raise SandboxLostError(f"sandbox {self._info.id} is lost: {how}")
        self.life.use()

    def _emit(self, kind: EventKind, **data: str | float | bool | None) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(Event(kind, self._info.id, time.time(), MappingProxyType(data)))
        except Exception:
            _log.exception("on_event of sandbox %s failed", self._info.id)
