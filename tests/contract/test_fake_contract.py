"""`FakeSandbox` keeps the file promises, and answers as it was told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from isandbox import (
    ConfigurationError,
    Event,
    ExecResult,
    ExecTimeoutError,
    Quotas,
    SandboxClosedError,
    SandboxLostError,
    UnsupportedError,
    connect,
    create_sandbox,
    kill_sandbox,
    list_sandboxes,
    reap,
)
from isandbox.testing import FakeSandbox, ThroughSync
from isandbox.testing.contract.base import Contract
from isandbox.testing.contract.cancellation import CancellationPromises
from isandbox.testing.contract.detached import Detached, DetachedPromises
from isandbox.testing.contract.errors import ErrorPromises
from isandbox.testing.contract.files import FilePromises
from isandbox.testing.contract.lifecycle import LifecyclePromises
from isandbox.testing.contract.names import HostileNamePromises
from isandbox.testing.contract.owned import OwnedPromises
from isandbox.testing.contract.transfers import TransferPromises
from isandbox.testing.fake import UnscriptedCommandError


class Fakes(Contract):
    @classmethod
    def create(cls, **options: Any) -> Any:
        return FakeSandbox.create(**options)

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _installed(cls) -> Iterator[None]:
        with FakeSandbox.installed():
            yield


class TestFake(
    Fakes,
    FilePromises,
    HostileNamePromises,
    TransferPromises,
    LifecyclePromises,
    OwnedPromises,
    CancellationPromises,
    ErrorPromises,
):
    """Every group that needs no command, as it stands."""


class TestFakeBlocking(ThroughSync, TestFake):
    """The same promises through `isandbox.sync`, which reaches a fake by its event-loop thread."""


class TestFakeDetached(Detached, LifecyclePromises, CancellationPromises, DetachedPromises, Fakes):
    """A fake that stays, in this process."""


class TestFakeDetachedBlocking(ThroughSync, TestFakeDetached):
    """The same promises through `isandbox.sync`."""


async def test_scripted_answers() -> None:
    """A command gets the newest answer scripted for it: a result, a text, bytes, or a function of the spec."""
    fake = FakeSandbox({"a.txt": "1"}).on(["git", "status"], "clean\n").on("make", ExecResult(2, stderr_bytes=b"no rule"))
    fake.on(["echo"], lambda spec: ExecResult(0, stdout_bytes=spec.stdin if isinstance(spec.stdin, bytes) else b""))
    assert (await fake.exec(["git", "status"])).stdout == "clean\n"
    assert (await fake.exec("make")).exit_code == 2
    assert (await fake.exec(["echo"], input="x")).stdout == "x"
    assert await fake.files.read_text("a.txt") == "1"
    assert [spec.argv or spec.script for spec in fake.calls] == [("git", "status"), "make", ("echo",)]


async def test_an_unscripted_command_fails_the_test() -> None:
    """A command without an answer is an AssertionError that names it, unless there is an answer for the rest."""
    fake = FakeSandbox()
    with pytest.raises(UnscriptedCommandError, match="rm"):
        await fake.exec(["rm", "-rf", "/"])
    assert (await fake.otherwise("ok").exec("anything")).stdout == "ok"


async def test_time_outs_cancellation_and_close() -> None:
    """A delay past the time-out is a time-out; a cancelled call is cancelled; a closed fake says so."""
    fake = FakeSandbox().on("slow", "late", delay=60)
    with pytest.raises(ExecTimeoutError):
        await fake.exec("slow", timeout=0.05, check=True)
    task = asyncio.create_task(fake.exec("slow"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    task = asyncio.create_task(fake.exec("slow"))
    await asyncio.sleep(0.05)
    await fake.close()
    with pytest.raises(SandboxClosedError):
        await task
    with pytest.raises(SandboxClosedError):
        await fake.exec("slow")


async def test_a_fake_is_held_to_its_options() -> None:
    """FakeSandbox.create checks as create_sandbox does: what nothing enforces is refused, what is unknown too."""
    with pytest.raises(UnsupportedError, match=r"quotas\.memory"):
        FakeSandbox.create(quotas=Quotas(memory="1GiB"))
    with pytest.raises(UnsupportedError, match="network"):
        FakeSandbox.create(network=[])
    with pytest.raises(ConfigurationError, match="no_such"):
        FakeSandbox.create(no_such=1)
    async with FakeSandbox.create({"a": "1"}, quotas=Quotas(memory="1GiB"), waive={"memory"}) as fake:
        assert fake.info.waived == {"memory"}
        assert await fake.files.read_text("a") == "1"


async def test_a_fake_tells_of_its_commands() -> None:
    """on_event of a fake hears of the commands that it answers, as that of a real one does."""
    events: list[Event] = []
    async with FakeSandbox.create(on_event=events.append) as fake:
        assert isinstance(fake, FakeSandbox)
        await fake.on("make", "done").exec("make")
    assert [event.kind for event in events] == ["created", "exec_started", "exec_ended", "closed"]


async def test_programs_that_find_sandboxes_can_be_tested() -> None:
    """While fakes are installed, the functions that find sandboxes see those alone; afterwards they have ended, and are unknown."""
    with FakeSandbox.installed({"a": "1"}):
        made = await create_sandbox("fake", detached=True, lifetime=60, labels={"job": "1"})
        other = await FakeSandbox.create(detached=True, lifetime=60)
        assert {summary.id for summary in await list_sandboxes()} == {made.info.id, other.info.id}
        assert isinstance(made, FakeSandbox)
        made.on("make", "done")
        await made.detach()
        async with connect(made.info.id) as connected:
            assert await connected.files.read_text("a") == "1"
            assert (await connected.exec("make")).stdout == "done"
        assert (await reap()).removed == ()
        assert [await kill_sandbox(summary.id) for summary in await list_sandboxes(labels={"job": "1"})] == [True]
    with pytest.raises(SandboxLostError):
        await other.files.list()
    with pytest.raises(ConfigurationError, match="no backend here"):
        connect(made.info.id)
    await other.close()


async def test_a_fakes_commands_end_with_it() -> None:
    """A command that waits when another handle kills the fake, or its lifetime ends, is SandboxLostError, and says why."""
    with FakeSandbox.installed():
        for lifetime, why in ((60, "killed"), (0.2, "lifetime")):
            fake = await FakeSandbox.create(detached=True, lifetime=lifetime)
            assert isinstance(fake, FakeSandbox)
            task = asyncio.create_task(fake.on("slow", "late", delay=60).exec("slow"))
            await asyncio.sleep(0.05)
            if why == "killed":
                assert await kill_sandbox(fake.info.id)
            with pytest.raises(SandboxLostError, match=why):
                await task
            await fake.close()


async def test_fakes_end_also_when_the_test_fails() -> None:
    """What ends the context by an exception ends the fakes, too: no later test finds a handle that works."""
    with contextlib.suppress(LookupError), FakeSandbox.installed():
        made = await create_sandbox("fake", detached=True, lifetime=60)
        raise LookupError
    with pytest.raises(SandboxLostError):
        await made.files.list()
    await made.close()
    with pytest.raises(ConfigurationError, match="unknown sandbox type"):
        create_sandbox("fake")
