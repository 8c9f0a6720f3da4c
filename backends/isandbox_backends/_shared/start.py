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
from typing import TYPE_CHECKING

from isandbox.errors import SandboxError
from isandbox.records import SandboxInfo
from isandbox_backends._shared.client import HelperClient, HelperStartError
from isandbox_backends._shared.helper import HelperProgram, helper_path
from isandbox_backends._shared.holding import NO_HOLDING, Holding
from isandbox_backends._shared.native import AsyncNative, BlockingNative, Core

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from isandbox.backend import CreateRequest
    from isandbox.policy import Capabilities
    from isandbox_backends._shared.cgroups import SandboxGroup
    from isandbox_backends._shared.plan import Record
    from isandbox_backends._shared.protocol import Hello


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
    id: str = field(init=False)

    def __post_init__(self) -> None:
        # Chosen here, not when it has started: processes and directories have it in their names.
        object.__setattr__(self, "id", f"{self.backend}-{secrets.token_hex(16)}")


def start_blocking(blueprint: Blueprint) -> BlockingNative:
    with _undo(blueprint) as (client, group):
        client.wait_ready(time.monotonic() + blueprint.request.start_timeout)
        return BlockingNative(_core(blueprint, client, group))


async def start_async(blueprint: Blueprint) -> AsyncNative:
    with _undo(blueprint) as (client, group):
        try:
            await asyncio.wait_for(_ready(client), blueprint.request.start_timeout)
        except TimeoutError as error:
            raise HelperStartError(0, "no answer", "in the time that a start may take") from error
        return AsyncNative(_core(blueprint, client, group))


@contextlib.contextmanager
def _undo(blueprint: Blueprint) -> Iterator[tuple[HelperClient, SandboxGroup | None]]:
    """A started helper and its control group; when the body fails, neither of them, no scratch directory, and the backend's own error."""
    client: HelperClient | None = None
    group: SandboxGroup | None = None
    try:
        group = blueprint.holding.make(blueprint.backend)
        client = HelperClient(blueprint.helper or _native(), blueprint.plan, blueprint.inherited, names=(blueprint.id,))
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


def _core(blueprint: Blueprint, client: HelperClient, group: SandboxGroup | None) -> Core:
    request = blueprint.request
    assert client.hello is not None  # noqa: S101 - the helper is ready
    info = SandboxInfo(
        id=blueprint.id,
        backend=blueprint.backend,
        isolation=blueprint.capabilities.isolation,
        workspace=blueprint.workspace,
        created_at=datetime.now(UTC),
        capabilities=blueprint.capabilities,
        quotas=request.policy.quotas,
        layers={**blueprint.layers(client.hello), "cgroup": _cgroup_layer(group, blueprint.holding)},
        waived=request.policy.waive,
        labels=request.labels,
    )
    core = Core(
        client=client,
        info=info,
        env=blueprint.env,
        cwd=blueprint.cwd,
        output_quota=request.policy.quotas.size("output"),
        command_owner=blueprint.command_owner,
        group=group,
        scratch=blueprint.scratch,
        on_event=request.on_event,
    )
    core.emit("created", backend=blueprint.backend)
    return core


def _cgroup_layer(group: SandboxGroup | None, holding: Holding) -> str:
    return f"absent ({holding.why})" if group is None else f"enforced ({group.describe()})"
