"""The verbs of kept commands, for both interfaces: listing them, and one more handle on one."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from isandbox._text import shown
from isandbox.command import MAX_OUTPUT_DEFAULT, check_max_output
from isandbox.errors import ConfigurationError, SandboxLostError
from isandbox.records import Offsets, ProcessInfo
from isandbox.sandbox import ISandbox
from isandbox.sync._blocking import refuse_in_loop
from isandbox.sync.sandbox import ISandbox as BlockingSandbox
from isandbox_backends._shared.aio import AsyncProcess
from isandbox_backends._shared.answers import KeptCommand, decode_commands
from isandbox_backends._shared.asking import ask, ask_blocking
from isandbox_backends._shared.blocking import BlockingProcess
from isandbox_backends._shared.exchange import kernel_words
from isandbox_backends._shared.protocol import Question, StartStage

if TYPE_CHECKING:
    from collections.abc import Callable

    from isandbox_backends._shared.core import Core
    from isandbox_backends._shared.endpoints import Endpoints
    from isandbox_backends._shared.exchange import Exchange


class AsyncKeptVerbs(ISandbox):
    _core: Core

    def _check_loop(self) -> None:
        raise NotImplementedError

    async def processes(self) -> list[ProcessInfo]:
        return [_describe(command) for command in await self._kept()]

    async def attach(self, id: int, *, since: Offsets | None = None, max_output: int = MAX_OUTPUT_DEFAULT) -> AsyncProcess:
        wanted, start = _check(id, since), check_max_output(max_output)
        self._require("attach")
        ends, exchange = self._core.begin_attach(_find(await self._kept(), id), wanted, start)
        process = self._process(ends, exchange, lambda: self._core.file_ended(exchange))
        try:
            await process.await_started()
        except BaseException:  # nobody will have the handle
            await process.detach()
            raise
        _refuse_gone(id, exchange)
        return process

    async def _kept(self) -> list[KeptCommand]:
        self._check_loop()
        self._require("attach")
        with self._core.telling_of_a_loss():
            return _decoded(self._core, await ask(self._core.client, Question.COMMANDS))

    def _process(self, ends: Endpoints, exchange: Exchange, on_end: Callable[[], None]) -> AsyncProcess:
        try:
            return AsyncProcess(self._core.client, ends, exchange, on_end)
        except BaseException:  # the loop cannot watch its pipes
            ends.give_up(self._core.client)
            raise


class BlockingKeptVerbs(BlockingSandbox):
    _core: Core

    def processes(self) -> list[ProcessInfo]:
        return [_describe(command) for command in self._kept()]

    def attach(self, id: int, *, since: Offsets | None = None, max_output: int = MAX_OUTPUT_DEFAULT) -> BlockingProcess:
        wanted, most = _check(id, since), check_max_output(max_output)
        ends, exchange = self._core.begin_attach(_find(self._kept(), id), wanted, most)
        process = BlockingProcess(self._core.client, ends, exchange, lambda: self._core.file_ended(exchange))
        try:
            process.await_started()
        except BaseException:  # nobody will have the handle
            process.detach()
            raise
        _refuse_gone(id, exchange)
        return process

    def _kept(self) -> list[KeptCommand]:
        refuse_in_loop()
        self._core.check_open()
        self._require("attach")
        with self._core.telling_of_a_loss():
            return _decoded(self._core, ask_blocking(self._core.client, Question.COMMANDS))


def _check(id: int, since: Offsets | None) -> Offsets:
    if isinstance(id, bool) or not isinstance(id, int) or id < 1:
        raise ConfigurationError(f"attach: the id of a kept command, as processes() lists it, not {shown(id)}")
    if since is not None and not isinstance(since, Offsets):
        raise ConfigurationError(f"attach: since is Offsets or None, not {shown(since)}")
    return since or Offsets()


def _decoded(core: Core, answer: bytes) -> list[KeptCommand]:
    with core.believing():
        return decode_commands(answer)


def _find(commands: list[KeptCommand], id: int) -> KeptCommand:
    for command in commands:
        if command.serial == id:
            return command
    raise _no_command(id)


def _no_command(id: int) -> ProcessLookupError:
    return ProcessLookupError(errno.ESRCH, f"no kept command {id}: {os.strerror(errno.ESRCH)}")


def _refuse_gone(id: int, exchange: Exchange) -> None:
    """It may have been forgotten between the list and the request."""
    if exchange.lost is not None:
        raise SandboxLostError(f"the sandbox was lost: {exchange.lost}")
    if exchange.start_stage is StartStage.ATTACH:
        raise _no_command(id)


def _describe(command: KeptCommand) -> ProcessInfo:
    code, number = (None, None) if command.running else kernel_words(command.wait_status)
    return ProcessInfo(
        id=command.serial,
        pid=command.pid or None,
        command=command.name,
        running=command.running,
        exit_code=code,
        signal=number,
        fault=command.fault,
        started_at=datetime.now(UTC) - timedelta(seconds=command.age),
        terminal=command.terminal,
        written=Offsets(*command.written),
        first=Offsets(*command.first),
    )
