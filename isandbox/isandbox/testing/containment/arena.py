"""What a probe works with: a fresh sandbox, canaries on the host, and a program inside that answers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

from isandbox.errors import UnsupportedError
from isandbox.factory import create_sandbox
from isandbox.policy import Capabilities
from isandbox.records import ExecResult
from isandbox.sandbox import ISandbox
from isandbox.testing.containment.canaries import Canaries
from isandbox.testing.containment.host import contents, difference
from isandbox.testing.containment.inside import Answers, UnusableAnswerError, parse, program
from isandbox.testing.containment.peers import Listener, SocketKind

_ANY = ("utf-8", "surrogateescape")


class Box(Protocol):
    """The least that a probe needs of a sandbox; group F takes an `ISandbox`."""

    async def exec(self, command: Any, /, **options: Any) -> ExecResult: ...


class Target(Protocol):
    """What is probed: a backend of ours, or somebody else's tool behind the same few calls."""

    name: str

    @property
    def capabilities(self) -> Capabilities: ...

    def create(self, **options: Any) -> AbstractAsyncContextManager[Any]:
        """A sandbox. Raises `UnsupportedError` for an option that this target does not have."""


class BackendTarget:
    """A backend by its ``SANDBOX_TYPE``."""

    def __init__(self, name: str | None = None, **options: Any) -> None:
        self._type, self._options = name, options
        self.name = name or "default"
        self._capabilities: Capabilities | None = None

    @property
    def made_by(self) -> dict[str, Any]:
        """``type`` and ``options`` of `create_sandbox`, for a program of its own that makes the same sandbox."""
        return {"type": self._type, "options": self._options}

    async def look(self) -> None:
        """Ask a real sandbox for its record, once."""
        async with self.create() as sandbox:
            self.name, self._capabilities = sandbox.info.backend, sandbox.info.capabilities

    @property
    def capabilities(self) -> Capabilities:
        assert self._capabilities is not None, "look() first"
        return self._capabilities

    def create(self, **options: Any) -> AbstractAsyncContextManager[Any]:
        return create_sandbox(self._type, **{**self._options, **options})


class Arena:
    """One probe's own. ``planted`` is a directory of the host, mode 0755, that goes with it: what stands there when the attack
    begins must be the same afterwards. Everything that comes back is searched for canaries.
    """

    def __init__(self, target: Target, stack: AsyncExitStack, outer: AsyncExitStack, *, thorough: bool = False) -> None:
        """``stack`` is closed before the host is looked at again, ``outer`` after it. ``thorough``: see `rounds`."""
        self.target = target
        self._thorough = thorough
        self.canaries = Canaries()
        self.stack, self._outer = stack, outer
        self.planted = Path(tempfile.mkdtemp(prefix="containment-"))
        self.planted.chmod(0o755)
        outer.callback(shutil.rmtree, self.planted, ignore_errors=True)
        self._sealed: Mapping[str, str] = contents(self.planted)
        self._outputs: list[bytes] = []
        self._box: Any = None

    async def create(self, **options: Any) -> Any:
        """A further sandbox, closed when the probe ends."""
        return await self.stack.enter_async_context(self.target.create(**options))

    async def box(self) -> Any:
        """The probe's own sandbox with every default, made at the first call."""
        if self._box is None:
            self._box = await self.create()
        return self._box

    async def sandbox(self, **options: Any) -> ISandbox:
        """The probe's own sandbox, or with options a further one, for what needs the whole port.

        Raises `UnsupportedError` for a target that can only run commands.
        """
        made = await (self.create(**options) if options else self.box())
        if not isinstance(made, ISandbox):
            raise UnsupportedError(f"{self.target.name} has no file verbs", option="files", backend=self.target.name)
        return made

    def rounds(self, few: int, many: int) -> int:
        """How often to try what depends on chance: ``few`` in an audit, ``many`` in the long run of the project's tests."""
        return many if self._thorough else few

    def plant(self, name: str, *, mode: int = 0o644) -> tuple[Path, str]:
        """A file with a canary below ``planted``, which the attack must not see. ``(path, canary)``."""
        path, canary = self.planted / name, self.canaries.new()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(canary + "\n")
        path.chmod(mode)
        self.seal()
        return path, canary

    def seal(self) -> None:
        """From here on nothing below ``planted`` may change. `plant` does this too."""
        self._sealed = contents(self.planted)

    def changed(self) -> list[str]:
        """Names below ``planted`` that are not what they were when it was sealed."""
        return difference(self._sealed, contents(self.planted))

    def shared(self, name: str) -> Path:
        """A directory below ``planted`` to mount read-only: open to everybody on the host, with a ``file`` and a directory
        ``inner`` in it, and sealed.
        """
        place = self.planted / name
        (place / "inner").mkdir(parents=True)
        (place / "file").write_text("x")
        for path, mode in ((place, 0o777), (place / "inner", 0o777), (place / "file", 0o666)):
            path.chmod(mode)
        self.seal()
        return place

    def directory(self) -> Path:
        """An empty directory of the host to mount, which the attack may change."""
        path = Path(tempfile.mkdtemp(prefix="mounted-"))
        self._outer.callback(shutil.rmtree, path, ignore_errors=True)
        return path

    def listen(self, address: str | tuple[str, int], kind: SocketKind = "stream") -> Listener:
        """A socket of the host that counts who comes (see `Listener`), closed when the probe ends. ``address`` without a slash
        is a name below ``planted``.
        """
        if isinstance(address, str) and "/" not in address and not address.startswith("\0"):
            address = str(self.planted / address)
        listener = Listener(address, kind)
        self.stack.callback(listener.close)
        self.seal()
        return listener

    async def attack(
        self, body: str, *, box: Box | None = None, timeout: float = 30.0, options: dict[str, Any] | None = None, **values: Any
    ) -> tuple[Answers, Answers]:
        """Run the Python ``body`` inside (see `inside.PRELUDE` for what it can use); ``(out, controls)`` as it filled them.

        ``values`` become its variables. ``options`` go to ``exec``.
        """
        result = await self.run(body, box=box, timeout=timeout, options=options, **values)
        if result.fault is not None or result.exit_code != 0:
            why = f"exit {result.exit_code}, fault {result.fault}: {result.stderr[-300:]}"
            raise UnusableAnswerError(f"the program inside failed ({why})")
        return parse(result.stdout_bytes)

    async def run(
        self, body: str, *, box: Box | None = None, timeout: float = 30.0, options: dict[str, Any] | None = None, **values: Any
    ) -> ExecResult:
        """The same program's end as the sandbox tells it: for what is meant to be ended, or to say nothing."""
        where = box if box is not None else await self.box()
        given = {"timeout": timeout, "max_output": 1 << 20, **(options or {})}
        result = await where.exec(["python3", "-I", "-c", program(body, values)], **given)
        self.saw(result)
        return result

    def saw(self, given: ExecResult | BaseException | bytes | str) -> None:
        """Remember what came back, for the search for canaries."""
        match given:
            case ExecResult():
                self._outputs += [given.stdout_bytes, given.stderr_bytes, (given.start_error or "").encode(*_ANY)]
            case bytes():
                self._outputs.append(given)
            case _:
                self._outputs.append(str(given).encode(*_ANY))

    def leaked(self) -> str | None:
        """A canary in anything that came back, also one that is spread over several outputs."""
        return self.canaries.seen_in(b"".join(self._outputs))
