"""A sandbox of the native helper, behind both interfaces: `AsyncNative` and `BlockingNative` differ in how they wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from isandbox._aio import in_thread
from isandbox.command import ProcessSpec
from isandbox.errors import ConfigurationError
from isandbox.sync._blocking import refuse_in_loop
from isandbox_backends._shared.aio import AsyncProcess
from isandbox_backends._shared.asking import ask, ask_blocking
from isandbox_backends._shared.blocking import BlockingProcess
from isandbox_backends._shared.core import Core
from isandbox_backends._shared.host_process import end_at_exit
from isandbox_backends._shared.kept import AsyncKeptVerbs, BlockingKeptVerbs
from isandbox_backends._shared.nativefiles import AsyncFileVerbs, BlockingFileVerbs
from isandbox_backends._shared.protocol import Question

if TYPE_CHECKING:
    from isandbox.records import Metrics, SandboxInfo

T = TypeVar("T")


class AsyncNative(AsyncKeptVerbs, AsyncFileVerbs):
    """The async interface: pipes are readers of the loop that made the sandbox."""

    def __init__(self, core: Core, *, connected: bool = False) -> None:
        self._core, self.connected = core, connected
        self._loop = asyncio.get_running_loop()
        end_at_exit(core)

    @property
    def info(self) -> SandboxInfo:
        return self._core.info

    async def spawn(self, spec: ProcessSpec) -> AsyncProcess:
        self._check_loop()
        ends, exchange = self._core.begin(spec)
        process = self._process(ends, exchange, lambda: self._core.ended(ends.id, exchange))
        if spec.want_pid:
            try:
                await process.await_started()
            except BaseException:  # nobody will have the handle
                await process.kill()
                raise
        return process

    async def metrics(self) -> Metrics:
        return self._core.metrics()

    async def renew(self, seconds: float) -> None:
        value = self._core.renewal(seconds)
        self._check_loop()
        with self._core.telling_of_a_loss():
            answer = await ask(self._core.client, Question.RENEW, value=value)
        await in_thread(self._core.renewed, answer, seconds)

    async def detach(self) -> None:
        self._core.let_go()

    async def close(self) -> None:
        pidfd = self._core.hang_up()
        if pidfd is None:
            return
        try:
            await _readable(pidfd)
        finally:
            # The helper has ended, or is ended by force.
            if self._core.takes_time():
                await asyncio.shield(asyncio.to_thread(self._core.clean_up))
            else:
                self._core.clean_up()

    def _check_loop(self) -> None:
        self._core.check_open()  # first: a forked child, where it is closed, has no loop of ours either
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError("an async sandbox belongs to the event loop that made it")


class BlockingNative(BlockingKeptVerbs, BlockingFileVerbs):
    """The blocking interface: each call polls in its own thread."""

    def __init__(self, core: Core, *, connected: bool = False) -> None:
        self._core, self.connected = core, connected
        end_at_exit(core)

    @property
    def info(self) -> SandboxInfo:
        return self._core.info

    def spawn(self, spec: ProcessSpec) -> BlockingProcess:
        refuse_in_loop()
        ends, exchange = self._core.begin(spec)
        process = BlockingProcess(self._core.client, ends, exchange, lambda: self._core.ended(ends.id, exchange))
        if spec.want_pid:
            try:
                process.await_started()
            except BaseException:  # nobody will have the handle
                process.kill()
                raise
        return process

    def metrics(self) -> Metrics:
        return self._core.metrics()

    def renew(self, seconds: float) -> None:
        value = self._core.renewal(seconds)
        with self._core.telling_of_a_loss():
            answer = ask_blocking(self._core.client, Question.RENEW, value=value)
        self._core.renewed(answer, seconds)

    def detach(self) -> None:
        self._core.let_go()

    def close(self) -> None:
        self._core.destroy()


async def _readable(fd: int) -> None:
    """Until ``fd`` is readable, two seconds at the longest."""
    if fd < 0:
        return
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(fd, _set, ready)
    try:
        await asyncio.wait({ready}, timeout=2.0)
    finally:
        loop.remove_reader(fd)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
