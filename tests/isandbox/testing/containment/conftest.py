"""Targets that never run anything: what a box answers is scripted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from isandbox import ExecResult, UnsupportedError
from isandbox.policy import PROTECTIONS, Capabilities
from isandbox.testing.containment import Arena, Probe, Verdict

Script = Callable[[Any], ExecResult | BaseException]


class ScriptedBox:
    """``script`` gets each command and gives what becomes of it. ``commands`` remembers them."""

    def __init__(self, script: Script) -> None:
        self.script, self.commands = script, list[Any]()

    async def exec(self, command: Any, /, **options: Any) -> ExecResult:
        self.commands.append(command)
        result = self.script(command)
        if isinstance(result, BaseException):
            raise result
        return result


class ScriptedTarget:
    """Claims everything. ``refuses``: options that it does not have."""

    name = "scripted"

    def __init__(self, script: Script, *, refuses: frozenset[str] = frozenset()) -> None:
        self.made, self.closed, self._script, self._refuses = list[ScriptedBox](), 0, script, refuses
        self.capabilities = Capabilities(isolation="os", protections=PROTECTIONS)

    @asynccontextmanager
    async def create(self, **options: Any) -> AsyncIterator[ScriptedBox]:
        if refused := self._refuses & set(options):
            raise UnsupportedError(f"{refused}: not here", option="mounts", backend="scripted")
        self.made.append(ScriptedBox(self._script))
        try:
            yield self.made[-1]
        finally:
            self.closed += 1


@pytest.fixture
def answering() -> Callable[..., ScriptedTarget]:
    """``answering(out, controls, **result)``: a target whose programs always answer so."""

    def make(
        out: dict[str, Any] | None = None,
        controls: dict[str, Any] | None = None,
        *,
        refuses: frozenset[str] = frozenset(),
        **result: Any,
    ) -> ScriptedTarget:
        answer = json.dumps({"out": out or {}, "controls": controls or {}}).encode()
        fields = {"exit_code": 0, "stdout_bytes": b"\n" + answer + b"\n", **result}
        return ScriptedTarget(lambda command: ExecResult(**fields), refuses=refuses)

    return make


@pytest.fixture
def scripted() -> Callable[..., ScriptedTarget]:
    """``scripted(script)``: a target with a script of its own."""
    return ScriptedTarget


@pytest.fixture
def as_probe() -> Callable[..., Probe]:
    """A probe that is on no list."""

    def make(attempt: Callable[[Arena], Awaitable[Verdict]], *, claim: str = "files", timeout: float = 30.0) -> Probe:
        return Probe("A00", "a probe", "filesystem", claim, attempt, timeout)

    return make


@pytest.fixture
async def arena(answering: Callable[..., ScriptedTarget]) -> AsyncIterator[Arena]:
    """An arena on a target that answers nothing in particular."""
    async with AsyncExitStack() as outer, AsyncExitStack() as stack:
        yield Arena(answering(), stack, outer)


@pytest.fixture
def closed_afterwards() -> Iterator[list[Any]]:
    """What is put in here is closed at the end of the test."""
    held: list[Any] = []
    yield held
    for one in held:
        one.close()
