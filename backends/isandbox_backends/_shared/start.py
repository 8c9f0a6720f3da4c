"""Starting a native sandbox: from a plan to a `Core`, in either interface, leaving nothing behind when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from isandbox._state.owner import current_process
from isandbox.errors import SandboxError
from isandbox.records import SandboxInfo
from isandbox_backends._shared.client import HelperClient, HelperStartError
from isandbox_backends._shared.core import Core, milliseconds
from isandbox_backends._shared.helper import HelperProgram, helper_path
from isandbox_backends._shared.holding import NO_HOLDING, Holding
from isandbox_backends._shared.native import AsyncNative, BlockingNative
from isandbox_backends._shared.plan import Life

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from isandbox.backend import CreateRequest
    from isandbox.policy import Capabilities
    from isandbox_backends._shared.cgroups import SandboxGroup
    from isandbox_backends._shared.plan import Record
    from isandbox_backends._shared.protocol import Hello

C = TypeVar("C", bound=Core)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Everything that a native sandbox is made of, once its backend has thought it out.

    ``layers`` tells what the helper's hello means; ``explain`` turns its failure into the backend's words.
    """

    backend: str
    capabilities: Capabilities
    request: CreateRequest
    plan: Sequence[Record]
    env: Mapping[str, str]
    cwd: str
    workspace: str
    layers: Callable[[Hello], Mapping[str, str]]
    explain: Callable[[HelperStartError], SandboxError]
    scratch: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    """The directories of ``scratch`` before any command has run: empty, the inner ones first. Removing them takes no
    descriptor, which may be what is missing when a start fails."""
    command_owner: int | None = None
    inherited: Mapping[int, int] = field(default_factory=dict)
    """Descriptors for the helper, by their numbers there. Whoever made them closes them."""
    holding: Holding = NO_HOLDING
    helper: HelperProgram | None = None
    """``None``: the native one, and an error where it is missing."""
    id: str = ""
    """Chosen here when it is not given: processes and directories have it in their names before it has started."""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", new_id(self.backend))

    def program(self) -> HelperProgram:
        """Raises `HelperStartError` where it is not installed."""
        return self.helper or _native()

    def all_records(self) -> Sequence[Record]:
        """The plan, with the ends of the sandbox's life."""
        lifetime, idle = self.request.lifetime, self.request.idle_timeout
        if lifetime is None and idle is None:
            return self.plan
        return [*self.plan, Life(milliseconds(lifetime) if lifetime else 0, milliseconds(idle) if idle else 0)]

    def core(self, client: HelperClient, group: SandboxGroup | None, kind: type[C]) -> C:
        """Of a helper that is ready."""
        request = self.request
        assert client.hello is not None  # noqa: S101 - the helper is ready
        info = SandboxInfo(
            id=self.id,
            backend=self.backend,
            isolation=self.capabilities.isolation,
            workspace=self.workspace,
            created_at=datetime.now(UTC),
            capabilities=self.capabilities,
            quotas=request.policy.quotas,
            layers={**self.layers(client.hello), "cgroup": _cgroup_layer(group, self.holding)},
            waived=request.policy.waive,
            labels=request.labels,
        )
        return kind(
            client=client,
            info=info,
            env=self.env,
            cwd=self.cwd,
            output_quota=request.policy.quotas.size("output"),
            command_owner=self.command_owner,
            group=group,
            scratch=self.scratch,
            on_event=request.on_event,
            life=request.lifetime is not None,
        )


def new_id(backend: str) -> str:
    return f"{backend}-{secrets.token_hex(16)}"


def start_blocking(blueprint: Blueprint) -> BlockingNative:
    if blueprint.request.detached:
        from isandbox_backends._shared.detached.making import create_blocking

        return create_blocking(blueprint)
    with _undo(blueprint) as (client, group):
        client.wait_ready(time.monotonic() + blueprint.request.start_timeout)
        return BlockingNative(_created(blueprint, client, group))


async def start_async(blueprint: Blueprint) -> AsyncNative:
    if blueprint.request.detached:
        from isandbox_backends._shared.detached.making import create_async

        return await create_async(blueprint)
    with _undo(blueprint) as (client, group):
        try:
            await asyncio.wait_for(_ready(client), blueprint.request.start_timeout)
        except TimeoutError as error:
            raise HelperStartError(0, "no answer", "in the time that a start may take") from error
        return AsyncNative(_created(blueprint, client, group))


@contextlib.contextmanager
def _undo(blueprint: Blueprint) -> Iterator[tuple[HelperClient, SandboxGroup | None]]:
    """A started helper and its control group; when the body fails, neither of them, no scratch directory, and the backend's own error."""
    client: HelperClient | None = None
    group: SandboxGroup | None = None
    try:
        group = blueprint.holding.make(blueprint.backend)
        names = (blueprint.id, str(current_process()))
        client = HelperClient(blueprint.program(), blueprint.all_records(), blueprint.inherited, names=names)
        yield client, group
    except BaseException as error:
        if client is not None:
            client.give_up()
        if group is not None:
            with contextlib.suppress(OSError):
                group.remove()
        for directory in blueprint.made:
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        if isinstance(error, HelperStartError):
            raise blueprint.explain(error) from error
        raise


def _native() -> HelperProgram:
    path = helper_path()
    if path is None:
        raise HelperStartError(2, "the native helper", "is not installed")
    return HelperProgram(path)


async def _ready(client: HelperClient) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        try:
            if client.receive() and not done.done():
                done.set_result(None)
        except HelperStartError as error:
            loop.remove_reader(client.fileno())
            if not done.done():
                done.set_exception(error)

    loop.add_reader(client.fileno(), readable)
    try:
        await done
    finally:
        loop.remove_reader(client.fileno())


def _created(blueprint: Blueprint, client: HelperClient, group: SandboxGroup | None) -> Core:
    core = blueprint.core(client, group, Core)
    core.emit("created", backend=blueprint.backend)
    return core


def _cgroup_layer(group: SandboxGroup | None, holding: Holding) -> str:
    return f"absent ({holding.why})" if group is None else f"enforced ({group.describe()})"
