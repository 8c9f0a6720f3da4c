"""Each probe of the groups C and F turns red when what it asks for is taken away: a probe that cannot fail proves nothing.

What only the plan holds is taken out of the plan. Where the host's side keeps the promise, one function of it, or of the sandbox
in the probe's hands, is replaced by a careless one.
"""

from __future__ import annotations

import logging
import os
import pickle
import shlex
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from isandbox import command, create_sandbox
from isandbox.capture import HeadTail
from isandbox.files import host, limits, transfers
from isandbox.policy import policy
from isandbox.testing.containment import BackendTarget, all_probes, run_probe
from isandbox_backends._shared import exchange, fileverbs, holding, start
from isandbox_backends._shared.plan import Affinity, Bind, ModeRecord, Record, Rlimit, Sysctl, Tmpfs
from isandbox_backends.seccomp import backend, layers, sources

pytestmark = [pytest.mark.native, pytest.mark.full]

PROBES = {one.id: one for one in all_probes()}
Patch = pytest.MonkeyPatch
Alter = Callable[[Patch], None]
Bend = Callable[[Any], None]


class Bent(BackendTarget):
    """Sandboxes that are altered after they were made."""

    def __init__(self, bend: Bend, **options: Any) -> None:
        super().__init__("seccomp", **options)
        self._bend = bend

    @asynccontextmanager
    async def create(self, **options: Any) -> AsyncIterator[Any]:
        async with super().create(**options) as sandbox:
            self._bend(sandbox)
            yield sandbox


def plan(change: Callable[[Record], Record | None], *, adding: tuple[Record, ...] = ()) -> Alter:
    """Every record changed; ``None`` leaves it out."""

    def alter(patch: Patch) -> None:
        compiled = backend.compile_plan

        def altered(*arguments: Any, **more: Any) -> list[Record]:
            records = [changed for record in compiled(*arguments, **more) if (changed := change(record)) is not None]
            at = next(number for number, record in enumerate(records) if isinstance(record, Sysctl))
            return [*records[:at], *adding, *records[at:]]

        patch.setattr(backend, "compile_plan", altered)
        patch.setattr(backend, "verified", layers.told)  # a mutant is meant to start, and to say what it lacks

    return alter


def without(*resources: int, **fields: Any) -> Alter:
    """No such rlimits, and these fields in the mode record."""

    def change(record: Record) -> Record | None:
        if isinstance(record, Rlimit) and record.resource in resources:
            return None
        return replace(record, **fields) if isinstance(record, ModeRecord) else record

    return plan(change)


def unsized(record: Record) -> Record:
    return replace(record, options="mode=0755") if isinstance(record, Tmpfs) and record.target == "tmp" else record


def no_group(patch: Patch) -> None:
    """A control group without limits, which is believed to hold them."""
    made = holding._holding
    patch.setattr(holding, "_holding", lambda *args: replace(made(*args), limits=holding.NO_LIMITS))


def no_memory(patch: Patch) -> None:
    no_group(patch)
    without(2, memory=0)(patch)
    plan(unsized)(patch)


def no_cpu_time(patch: Patch) -> None:
    without(0, cpu_ns=0)(patch)


def host_tmp(patch: Patch) -> None:
    """The host's temporary directory, writable, where the sandbox has its own, and nothing that forbids writing there."""
    top = os.path.realpath(tempfile.gettempdir())
    view = Bind(top, top.lstrip("/"), 0, recursive=False)
    root = os.geteuid() == 0

    def change(record: Record) -> Record | None:
        if type(record).__name__ in {"Landlock", "Allow"}:
            return replace(record, handled=0, scopes=0) if type(record).__name__ == "Landlock" else None
        return record

    made = tuple(backend_directory(path) for path in parents(top))
    plan(change, adding=(*made, replace(view, idmap=1 if root else 0)))(patch)


def backend_directory(path: str) -> Record:
    from isandbox_backends._shared.plan import Directory

    return Directory(path)


def parents(path: str) -> list[str]:
    """Directories on the way to it and itself, below the sandbox's own /tmp."""
    parts = path.strip("/").split("/")
    return ["/".join(parts[: number + 1]) for number in range(1, len(parts))]


def somewhere(path: str, what: str) -> str:
    """A directory in any case: where there is none of this name, another."""
    return path if os.path.isdir(path) and path != "/" else os.path.realpath(tempfile.gettempdir())


def attribute(where: Any, name: str, value: Any) -> Alter:
    return lambda patch: patch.setattr(where, name, value)


def answering(**changes: Any) -> Bend:
    """A sandbox whose results are told with these fields changed."""

    def bend(sandbox: Any) -> None:
        spawned = sandbox.exec

        async def untrue(*arguments: Any, **options: Any) -> Any:
            return replace(await spawned(*arguments, **options), **changes)

        sandbox.exec = untrue

    return bend


def by_a_shell(sandbox: Any) -> None:
    """Somebody who builds a line for a shell from what he is given."""
    spawned = sandbox.exec

    async def careless(command: Any, **options: Any) -> Any:
        if not isinstance(command, str) and command[0] == "true" and len(command) == 2:
            command = f"true '{command[1]}'"
        return await spawned(command, **options)

    sandbox.exec = careless


def replaced(**methods: Callable[[Any], Any]) -> Bend:
    """Methods of the sandbox, each made from the one that it has."""

    def bend(sandbox: Any) -> None:
        for name, make in methods.items():
            setattr(sandbox, name, make(getattr(sandbox, name)))

    return bend


def unpickling(read: Any) -> Any:
    async def careless(path: str, **options: Any) -> bytes:
        data: bytes = await read(path, **options)
        with suppress(Exception):
            pickle.loads(data)  # noqa: S301 - what the probe is there to see
        return data

    return careless


def lossy(list_dir: Any) -> Any:
    async def careless(path: str, **options: Any) -> Any:
        found = await list_dir(path, **options)
        return [replace(entry, name=entry.name.encode("utf-8", "replace").decode()) for entry in found]

    return careless


def waiting(read: Any) -> Any:
    async def careless(path: str, **options: Any) -> bytes:
        with suppress(OSError):
            return bytes(await read(path, **options))
        return b""

    return careless


def logging_all(run: Any) -> Any:
    async def careless(command: Any, **options: Any) -> Any:
        logging.getLogger("isandbox").info("run %s", shlex.join(command) if not isinstance(command, str) else command)
        return await run(command, **options)

    return careless


def dropping_env(run: Any) -> Any:
    async def careless(command: Any, *, env: Any = None, **options: Any) -> Any:
        given = {name.strip() or "X": value for name, value in (env or {}).items() if isinstance(value, str)}
        return await run(command, env={n: v.split("\n")[0] for n, v in given.items()}, **options)

    return careless


def stripping(write: Any) -> Any:
    async def careless(path: str, data: Any, **options: Any) -> None:
        await write(path.lstrip("-@:"), data, **options)

    return careless


LOST: list[int] = []


def losing_one(run: Any) -> Any:
    async def careless(command: Any, **options: Any) -> Any:
        LOST.append(os.dup(0))
        return await run(command, **options)

    return careless


def by_command(stat: Any) -> Any:
    async def careless(path: str, **options: Any) -> Any:
        await stat.__self__.exec(["cat", path], timeout=20.0)
        return await stat(path, **options)

    return careless


def cutting(run: Any) -> Any:
    async def careless(command: Any, **options: Any) -> Any:
        large = len(command) > 1000 or (sum(map(len, command)) > 130_000 and len(command) != 5)
        return await run(["true"] if large else command, **options)

    return careless


class Forgetful(BackendTarget):
    """Sandboxes that are not closed by who made them."""

    def __init__(self) -> None:
        super().__init__("seccomp")
        self.kept: list[Any] = []

    @asynccontextmanager
    async def create(self, **options: Any) -> AsyncIterator[Any]:
        sandbox = await create_sandbox("seccomp", **options)
        self.kept.append(sandbox)
        yield sandbox


def keeping_all(patch: Patch) -> None:
    patch.setattr(exchange, "HeadTail", lambda _: HeadTail(1 << 40))


def sparse_is_read(patch: Patch) -> None:
    patch.setattr(fileverbs, "READ_CEILING", 1 << 20)
    patch.setattr(fileverbs, "read", lambda path, offset, limit: fileverbs._call(
        fileverbs.FileOperation.READ, bytes, path, str(offset), str(limit or 1 << 20), ceiling=limit or 1 << 20))  # fmt: skip


PLANS: list[tuple[str, Alter]] = [
    ("C01", no_memory),
    ("C02", no_memory),
    ("C03-scratch", no_memory),
    ("C03-unmapped", no_memory),
    ("C05", plan(unsized)),
    ("C05-names", plan(unsized)),
    ("C05-size", without(1)),
    ("C06", sparse_is_read),
    ("C07", without(7)),
    ("C08", without(pids=0)),
    ("C08-full", without(pids=0)),
    ("C10", plan(lambda record: None if isinstance(record, Affinity) else record)),
    ("C10-widen", plan(lambda record: None if isinstance(record, Affinity) else record)),
    ("C10-time", no_cpu_time),
    ("C11", keeping_all),
    ("C17", plan(lambda r: replace(r, clone_flags=r.clone_flags & ~0x08000000) if isinstance(r, ModeRecord) else r)),
    ("C17-counted", plan(lambda r: None if isinstance(r, Sysctl) and "inotify" in r.name else r)),
    ("C20", no_memory),
    ("F01", host_tmp),
    ("F01-staging", attribute(transfers, "_landing", lambda target, plan: host.Landing(f"{target}-elsewhere", tree=True))),
    ("F04", attribute(sources, "real_source", somewhere)),
    ("F05", host_tmp),
    ("F07", attribute(host, "leads_out", lambda path, target: None)),
    ("F09", attribute(limits.Limits, "__post_init__", lambda self: object.__setattr__(self, "ratio", 1 << 40))),
    ("F15", host_tmp),
    ("F16", attribute(exchange, "plain", str)),
    ("F19", attribute(start.secrets, "token_hex", lambda size: os.urandom(8).hex())),
    ("F21", attribute(command, "check_timeout", lambda timeout: 5.0)),
    ("F21-types", attribute(policy, "check_list", lambda values, what, of: tuple(values))),
    ("F22", attribute(host.Plan, "_count_one", lambda self, *texts: None)),
]
BENDS: list[tuple[str, Bend]] = [
    ("C11-quota", answering(fault=None)),
    ("C13", answering(lingering=False)),
    ("C14", answering(stderr_bytes=b"")),
    ("C15", answering(fault=None)),
    ("C16", replaced(exec=cutting)),
    ("C18", replaced(exec=logging_all)),
    ("C07-host", replaced(exec=losing_one)),
    ("F02", replaced(list_dir=lossy)),
    ("F03", replaced(write=stripping)),
    ("F06", replaced(read=waiting)),
    ("F11", by_a_shell),
    ("F12", replaced(exec=dropping_env)),
    ("F13", replaced(stat=by_command)),
    ("F17", replaced(exec=logging_all)),
    ("F23", answering(exit_code=0)),
    ("F24", replaced(read=unpickling)),
]


async def outcome(id: str, target: BackendTarget) -> str:
    await target.look()
    return (await run_probe(PROBES[id], target)).outcome


@pytest.mark.parametrize(("id", "alter"), PLANS, ids=[one for one, _ in PLANS])
async def test_without_its_mechanism_a_probe_is_red(id: str, alter: Alter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe finds a leak in a sandbox whose plan, or whose host's side, lacks what holds it."""
    if id == "C03-unmapped" and "memory" not in holding.usable_controllers():
        pytest.skip("without a control group memory that nobody has mapped is not claimed to be held")
    if id == "C17-counted" and os.geteuid() == 0:
        pytest.skip("root's sandboxes have ids of their own: the host's user is not counted with them, also without the limit")
    alter(monkeypatch)
    # On a machine that is busy a second CPU gives nothing, and the probe says that it proves nothing.
    red = {"LEAK", "VACUOUS"} if id.startswith("C10-w") or id == "C10" else {"LEAK"}
    assert await outcome(id, BackendTarget("seccomp")) in red


@pytest.mark.parametrize(("id", "bend"), BENDS, ids=[one for one, _ in BENDS])
async def test_with_a_careless_host_a_probe_is_red(id: str, bend: Bend) -> None:
    """The probe does not take the word of a sandbox that answers falsely, or is careless with what it is given."""
    try:
        assert await outcome(id, Bent(bend)) == "LEAK"
    finally:
        while LOST:
            os.close(LOST.pop())


async def test_sandboxes_that_nobody_closes_are_seen() -> None:
    """C22 is red when sandboxes stay."""
    target = Forgetful()
    try:
        assert await outcome("C22", target) == "LEAK"
    finally:
        for sandbox in target.kept:
            await sandbox.close()


def test_every_probe_has_its_red() -> None:
    """No probe of the two groups is left out."""
    tried = {name for name, _ in (*PLANS, *BENDS)} | {"C22"}
    assert tried == {name for name, one in PROBES.items() if one.group in {"resources", "interface"}}
