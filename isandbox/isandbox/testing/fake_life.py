"""What all handles on one `FakeSandbox` share, and where the fakes of this process are found again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import weakref
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from isandbox.errors import ConfigurationError, SandboxNotFoundError
from isandbox.records import SandboxSummary

if TYPE_CHECKING:
    from isandbox.backend import CreateRequest
    from isandbox.records import SandboxInfo
    from isandbox.testing.fake import FakeSandbox


class Flag:
    """Set once, from any thread; waited for in any event loop."""

    def __init__(self) -> None:
        self._set = False
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        for loop, waiter in list(self._waiters):
            with contextlib.suppress(RuntimeError):  # its loop is closed
                loop.call_soon_threadsafe(_wake, waiter)

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        entry = loop, loop.create_future()
        self._waiters.add(entry)
        try:
            if not self._set:  # looked at after the entry is there: `set` goes the other way
                await entry[1]
        finally:
            self._waiters.discard(entry)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


@dataclass(eq=False)
class FakeLife:
    """Ends by its lifetime, by its idle time or by somebody's word. Nothing runs for that: each look tells what is due."""

    request: CreateRequest
    info: SandboxInfo
    handles: weakref.WeakSet[FakeSandbox] = field(default_factory=weakref.WeakSet)
    origin: FakeSandbox | None = None
    """A detached one is kept by its register, and new handles are made from this one."""
    _end: str = ""
    _deadline: float | None = None
    _used: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.request.lifetime is not None:
            self._deadline = self._used + self.request.lifetime

    def end(self) -> str:
        """How it ended, in words for a message; empty while it lives."""
        left = self.left()
        if not self._end and left is not None and left <= 0:
            over = self._deadline is not None and time.monotonic() >= self._deadline
            self.finish("its lifetime ended" if over else "its idle_timeout ended")
        return self._end

    def left(self) -> float | None:
        """Seconds until it ends by itself; ``None``: it does not."""
        now = time.monotonic()
        idle = self.request.idle_timeout
        ends = [] if self._deadline is None else [self._deadline - now]
        return min([*ends, *([] if idle is None else [self._used + idle - now])], default=None)

    def use(self, seconds: float = 0.0) -> None:
        """It is not idle now, nor for ``seconds`` more."""
        self._used = max(self._used, time.monotonic() + seconds)

    def renew(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def finish(self, how: str) -> bool:
        """Whether it lived."""
        if self._end:
            return False
        self._end, self.origin = how, None
        for handle in list(self.handles):
            handle.wake()
        return True

    def summary(self, pid: int) -> SandboxSummary:
        info, left = self.info, None if self._deadline is None else self._deadline - time.monotonic()
        return SandboxSummary(
            id=info.id,
            backend=info.backend,
            state="ended" if self.end() else "running",
            detached=self.request.detached,
            created_at=info.created_at,
            labels=info.labels,
            owner_pid=None if self.request.detached else pid,
            expires_at=None if left is None else datetime.now(info.created_at.tzinfo) + timedelta(seconds=left),
        )


class FakeRegister:
    """The fakes of this process: detached ones, and owned ones as long as somebody has their handle."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._detached: dict[str, FakeLife] = {}
        self._owned: weakref.WeakValueDictionary[str, FakeLife] = weakref.WeakValueDictionary()
        self._keys: dict[str, FakeLife] = {}

    def add(self, life: FakeLife) -> None:
        with self.lock:
            (self._detached if life.request.detached else self._owned)[life.info.id] = life
            if life.request.idempotency_key is not None:
                self._keys[life.request.idempotency_key] = life

    def under_key(self, request: CreateRequest) -> FakeLife | None:
        life = self._keys.get(request.idempotency_key) if request.idempotency_key is not None else None
        if life is None:
            return None
        if life.request.options_digest != request.options_digest:
            raise ConfigurationError("idempotency_key: another sandbox was asked for under this key; use a key of its own")
        return self._living(life)

    def find(self, id: str) -> FakeLife:
        with self.lock:
            life: Any = self._detached.get(id) or self._owned.get(id)
        if life is None:
            raise SandboxNotFoundError(f"there is no sandbox {id}")
        return life  # type: ignore[no-any-return]

    def living(self, id: str) -> FakeLife:
        return self._living(self.find(id))

    def _living(self, life: FakeLife) -> FakeLife:
        if how := life.end():
            raise SandboxNotFoundError(f"sandbox {life.info.id} has ended: {how}")
        return life

    def all(self) -> list[FakeLife]:
        with self.lock:
            return [*self._detached.values(), *self._owned.values()]

    def end(self) -> None:
        for life in self.all():
            life.finish("its register is gone")
