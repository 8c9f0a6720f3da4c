"""Somebody else's sandbox as a target of the probes: a program that is put before the command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shlex
import shutil
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from isandbox.errors import UnsupportedError
from isandbox.policy import KERNEL, PROTECTIONS, Capabilities, Mount, Quotas, Workspace
from isandbox.records import ExecResult

PATH = "/usr/local/bin:/usr/bin:/bin"
_GRACE = 5.0
_PROGRAM = ("python3", "-I", "-c")
_FROM_INPUT = "import sys; exec(sys.stdin.read())"


@dataclass(frozen=True)
class Call:
    """What a tool is asked to run. ``timeout`` in seconds; ``directory`` is the host's, private, and goes with the box."""

    argv: Sequence[str]
    timeout: float
    directory: str
    mounts: Sequence[Mount] = ()
    quotas: Quotas = field(default_factory=Quotas)


class Tool(ABC):
    """``name`` for the table. ``options`` of `create` are refused but those in ``offers``."""

    name: str
    offers: frozenset[str] = frozenset()
    quotas: frozenset[str] = frozenset()
    longest: int = 128 << 10
    """Characters of an argument. A program that is longer is read from its input."""

    @abstractmethod
    def command(self, call: Call) -> list[str]:
        """The whole command line."""

    @abstractmethod
    def version(self) -> str:
        """What it says about itself."""

    def missing(self) -> str | None:
        """Why it cannot be asked here."""
        program = self.command(Call(["true"], 1, "/nowhere"))[0]
        return None if shutil.which(program) else f"{program} is not installed"

    def described(self) -> str:
        """How it is called, for a reader who wants to do the same."""
        return f"`{shlex.join(self.command(Call(['COMMAND'], 1, 'DIRECTORY')))}`"

    @property
    def capabilities(self) -> Capabilities:
        """Every protection counts as claimed: whether it is there is the question."""
        return Capabilities("os", dict.fromkeys(self.quotas, KERNEL), protections=PROTECTIONS)

    def create(self, **options: Any) -> AbstractAsyncContextManager[ToolBox]:
        for name, value in options.items():
            if name not in {*self.offers, "quotas"} and value:
                raise UnsupportedError(f"{name}: {self.name} has no such thing here", option=name, backend=self.name)
        quotas = options.get("quotas") or Quotas()
        asked = {name for name in Quotas.__dataclass_fields__ if getattr(quotas, name) != getattr(Quotas(), name)}
        if asked - self.quotas:
            name = min(asked - self.quotas)
            raise UnsupportedError(f"quotas.{name}: {self.name} has no such thing", option=f"quotas.{name}", backend=self.name)
        mounts = list(options.get("mounts") or ())
        if (workspace := options.get("workspace")) is not None:
            given = workspace if isinstance(workspace, Workspace) else Workspace(str(workspace))
            mounts.append(Mount(given.path, given.path, "ro" if given.mode == "ro" else "rw"))
        return self._box(mounts, quotas)

    @asynccontextmanager
    async def _box(self, mounts: Sequence[Mount], quotas: Quotas) -> AsyncIterator[ToolBox]:
        with tempfile.TemporaryDirectory(prefix="box-") as directory:
            yield ToolBox(self, directory, mounts, quotas)


@dataclass
class ToolBox:
    """A sandbox per command: none of these tools keeps one between two."""

    tool: Tool
    directory: str
    mounts: Sequence[Mount]
    quotas: Quotas

    async def exec(
        self,
        command: str | Sequence[str],
        /,
        *,
        timeout: float | None = 60.0,
        max_output: int = 1 << 20,
        input: bytes | str | None = None,
        env: dict[str, str] | None = None,
        **others: Any,
    ) -> ExecResult:
        for name, value in others.items():
            if value:
                raise UnsupportedError(f"{name}: not asked of another tool", option=name, backend=self.tool.name)
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        limit = 60.0 if timeout is None else timeout
        given = input.encode() if isinstance(input, str) else input
        if given is None and tuple(argv[:3]) == _PROGRAM and len(argv[3]) > self.tool.longest:
            argv, given = [*_PROGRAM, _FROM_INPUT, *argv[4:]], argv[3].encode()
        line = self.tool.command(Call(argv, limit, self.directory, self.mounts, self.quotas))
        began, burnt = time.monotonic(), _children_time()
        process = await asyncio.create_subprocess_exec(
            *line,
            stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            cwd="/",
        )
        out, err, timed_out = await _outcome(process, given, limit)
        status = process.returncode or 0
        # Shells, bubblewrap and firejail say so of what died by a signal.
        number = -status if status < 0 else status - 128 if 128 < status < 128 + signal.NSIG else None
        return ExecResult(
            exit_code=status if status >= 0 else 128 - status,
            signal=number,
            fault="timeout" if timed_out else self._fault(number),
            stdout_bytes=out[:max_output],
            stderr_bytes=err[:max_output],
            duration=time.monotonic() - began,
            cpu_time=_children_time() - burnt,
        )

    def _fault(self, number: int | None) -> str | None:
        """None of them says why it ended a command: killed under a limit of memory counts as ended for that."""
        return "oom" if number == signal.SIGKILL and self.quotas.memory is not None else None


def _children_time() -> float:
    """Seconds of CPU time of all that has ended and been waited for; what runs beside a command counts with it."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def _outcome(process: asyncio.subprocess.Process, given: bytes | None, limit: float) -> tuple[bytes, bytes, bool]:
    """Output, errors, and whether it took too long. Cancelled, it ends the tool first."""
    talk = asyncio.ensure_future(process.communicate(given))
    try:
        done, _ = await asyncio.wait({talk}, timeout=limit)
        if done:
            return *_said(talk), False
        _end(process)
        done, _ = await asyncio.wait({talk}, timeout=_GRACE)
        return (*_said(talk), True) if done else (b"", b"", True)  # something that it started holds the pipes
    finally:
        _end(process)
        talk.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await talk
        with contextlib.suppress(TimeoutError):  # what has become root cannot be ended by its user
            await asyncio.wait_for(process.wait(), _GRACE)


def _said(talk: asyncio.Future[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    try:
        return talk.result()
    except OSError:  # it ended before it had read all of its input
        return b"", b""


def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
