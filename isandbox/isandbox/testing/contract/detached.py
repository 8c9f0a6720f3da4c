"""Sandboxes that stay: from `connect` to their end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from isandbox import ConfigurationError, Event, ISandbox, SandboxClosedError, SandboxLostError, SandboxNotFoundError, sync
from isandbox.testing.contract.base import Contract, in_forked_child, in_time_async, within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

# Its end comes long after that of any test, and yet it comes.
LIFETIME = 600.0


class Detached(Contract):
    """Put it before a contract class, and every promise is held by detached sandboxes. None of them outlives the class."""

    _made: ClassVar[list[str]]

    @classmethod
    def create(cls, **options: Any) -> Any:
        heard = options.pop("on_event", None)
        if heard is not None and not callable(heard):
            return super().create(on_event=heard, **options)
        made = cls.__dict__.get("_made", [])

        def on_event(event: Event) -> None:
            if event.kind == "created":
                made.append(event.sandbox_id)
            if heard is not None:
                heard(event)

        return super().create(**{"detached": True, "lifetime": LIFETIME, "on_event": on_event, **options})

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _none_is_left(cls) -> Iterator[None]:
        cls._made = []
        yield
        assert [name for name in cls._made if _killed(name)] == []


@contextlib.asynccontextmanager
async def closed_if_it_fails(sandbox: ISandbox) -> AsyncIterator[None]:
    """What is done with it before anybody else has it."""
    try:
        yield
    except BaseException:
        await sandbox.close()
        raise


def _killed(id: str) -> bool:
    with contextlib.suppress(SandboxNotFoundError):
        return sync.kill_sandbox(id)
    return False


async def lost(sandbox: ISandbox) -> str:
    """Use a sandbox until it is lost, half a minute at the most; the message of that."""
    for _ in range(300):
        try:
            await sandbox.metrics()
        except SandboxLostError as error:
            return str(error)
        await asyncio.sleep(0.1)
    raise AssertionError(f"{sandbox.info.id} is not lost")


class DetachedPromises(Contract):
    """Finding, sharing and ending sandboxes that stay; no command is needed."""

    async def test_a_connection_sees_what_was_made(self) -> None:
        """Connect by id gives a handle with the same info and labels, on the same files, in both directions."""
        async with self.create(labels={"job": "42"}) as made:
            await made.files.write("from/maker", "1")
            async with self.connect(made.info.id) as connected:
                assert connected.info == made.info
                assert connected.info.labels == {"job": "42"}
                assert await connected.files.read_text("from/maker") == "1"
                await connected.files.write("from/client", "2")
            assert await made.files.read_text("from/client") == "2"

    async def test_leaving_a_connection_lets_go(self) -> None:
        """Leaving `async with connect(id)` closes that handle alone, also when the body raises; the sandbox lives on."""
        async with self.create() as made:
            with pytest.raises(LookupError, match="mine"):  # noqa: PT012 - the context that is left is what is tested
                async with self.connect(made.info.id) as connected:
                    assert connected.connected
                    raise LookupError("mine")
            with pytest.raises(SandboxClosedError):
                await connected.files.list()
            async with await self.connect(made.info.id) as again:
                await again.files.write("x", "lives")
            assert await made.files.read_text("x") == "lives"

    async def test_detach_lets_go(self) -> None:
        """After detach the handle is SandboxClosedError, twice is once, closing it ends nothing, and connect finds all as it was."""
        async with self.create() as made:
            await made.files.write("x", "stays")
            await made.detach()
            with pytest.raises(SandboxClosedError):
                await made.files.read_text("x")
            await made.detach()
            await made.close()
            assert made.info.id in repr(made)
        connected = await self.connect(made.info.id)
        assert await connected.files.read_text("x") == "stays"
        await connected.close()
        await connected.detach()

    async def test_leaving_a_creation_closes(self) -> None:
        """Leaving `async with create_sandbox(detached=True)` closes the sandbox for everybody, unless it was let go of before."""
        async with self.create() as made:
            pass
        with pytest.raises(SandboxNotFoundError):
            await self.connect(made.info.id)
        assert await self.kill_sandbox(made.info.id) is False

    async def test_closing_a_connection_destroys(self) -> None:
        """Close on any handle ends the sandbox: the others are SandboxLostError, connect SandboxNotFoundError."""
        made = await self.create()
        connected = await self.connect(made.info.id)
        await connected.close()
        await lost(made)
        with pytest.raises(SandboxNotFoundError):
            await self.connect(made.info.id)
        await made.close()

    async def test_clients_at_once(self) -> None:
        """Four handles write and read at once without mixing, and one that leaves disturbs no other."""
        async with self.create() as made:
            handles = [made, *[await self.connect(made.info.id) for _ in range(3)]]

            async def work(n: int, sandbox: ISandbox) -> str:
                for turn in range(10):
                    await sandbox.files.write(f"client-{n}", f"{n} {turn}")
                    assert await sandbox.files.read_text(f"client-{n}") == f"{n} {turn}"
                if sandbox is not made:
                    await sandbox.detach()
                return f"client-{n}"

            names = await asyncio.gather(*(work(n, sandbox) for n, sandbox in enumerate(handles)))
            assert {entry.name for entry in await made.files.list()} >= set(names)

    async def test_kill_says_what_it_found(self) -> None:
        """kill_sandbox is True for one that lived, False when it had ended, SandboxNotFoundError for one never heard of."""
        made = await self.create()
        assert await self.kill_sandbox(made.info.id) is True
        assert await self.kill_sandbox(made.info.id) is False
        await lost(made)
        await made.close()
        never = f"{made.info.backend}-{secrets.token_hex(16)}"
        with pytest.raises(SandboxNotFoundError):
            await self.kill_sandbox(never)
        with pytest.raises(SandboxNotFoundError):
            await self.connect(never)

    async def test_what_is_no_id_is_refused(self, sandbox: ISandbox) -> None:
        """A path, another spelling, an unknown backend's, a mile of letters: ConfigurationError, before anything is looked at."""
        right = sandbox.info.id
        spelt = (f"../{right}", f"{right}/", right.upper(), f"{right}\n", f"{right}\0", f"{right}-é", right + "0" * 300)
        for wrong in ("", "x", "nosuch-1", *spelt):
            with pytest.raises(ConfigurationError, match=r"^id: "):
                self.connect(wrong)
            with pytest.raises(ConfigurationError, match=r"^id: "):
                await self.kill_sandbox(wrong)

    async def test_a_list_has_it(self) -> None:
        """list_sandboxes shows a detached sandbox while it lives, by type and by labels, and no more as running afterwards."""
        mark = secrets.token_hex(8)
        async with self.create(labels={"mark": mark, "more": "x"}) as made:
            info = made.info
            found = await self.list_sandboxes(type=info.backend, labels={"mark": mark})
            assert [summary.id for summary in found] == [info.id]
            summary = found[0]
            assert (summary.backend, summary.state, summary.detached) == (info.backend, "running", True)
            assert (summary.owner_pid, summary.labels) == (None, info.labels)
            assert abs((summary.created_at - info.created_at).total_seconds()) < 60
            assert summary.expires_at is not None
            assert summary.created_at < summary.expires_at
            assert info.id in {summary.id for summary in await self.list_sandboxes(type=info.backend)}
            for labels in ({"mark": mark, "more": "y"}, {"mark": "another"}, {"mark": mark, "no": "such"}):
                assert await self.list_sandboxes(type=info.backend, labels=labels) == []
        after = await self.list_sandboxes(type=info.backend, labels={"mark": mark})
        assert [summary.id for summary in after if summary.state == "running"] == []

    async def test_an_owned_one_is_in_the_list(self, sandbox: ISandbox) -> None:
        """list_sandboxes shows an owned sandbox with the process that owns it."""
        async with self.create(detached=False, lifetime=None) as owned:
            found = {summary.id: summary for summary in await self.list_sandboxes(type=sandbox.info.backend)}
            summary = found[owned.info.id]
            assert (summary.state, summary.detached, summary.owner_pid) == ("running", False, os.getpid())
            assert summary.expires_at is None

    async def test_reap_spares_the_living(self) -> None:
        """reap, also twice at once, removes nothing of a sandbox that lives, with or without a handle."""
        made = await self.create()
        await made.files.write("x", "lives")
        reports = [*await asyncio.gather(self.reap(), self.reap())]
        await made.detach()
        reports.append(await self.reap())
        assert not [name for report in reports for name in report.removed if made.info.id in name]
        async with self.connect(made.info.id) as connected:
            assert await connected.files.read_text("x") == "lives"
            await connected.close()

    async def test_a_lifetime_ends_it(self) -> None:
        """When lifetime= is over the sandbox is lost, the error says so, and connect does not find it; an owned one's too."""
        for detached in (True, False):

            async def begin(lifetime: float, detached: bool = detached) -> ISandbox:
                with within(lifetime):
                    return await self.create(detached=detached, lifetime=lifetime)  # type: ignore[no-any-return]

            made = await in_time_async(begin)
            assert "lifetime" in await lost(made)
            with pytest.raises(SandboxNotFoundError):
                await self.connect(made.info.id)
            await made.close()

    async def test_renew_sets_a_new_end(self) -> None:
        """After renew the sandbox lives for that long from then on: longer than it had, or shorter."""

        async def begin(lifetime: float) -> tuple[Any, float]:
            with within(lifetime):
                made = await self.create(lifetime=lifetime)
                async with closed_if_it_fails(made):
                    await made.renew(LIFETIME)
            return made, lifetime

        made, before = await in_time_async(begin)
        async with made:
            await asyncio.sleep(before + 0.5)
            await made.files.write("x", "lives")
            async with self.connect(made.info.id) as connected:
                await connected.renew(0.3)
                assert "lifetime" in await lost(connected)
            await lost(made)

    async def test_an_impossible_renewal_is_refused(self, sandbox: ISandbox) -> None:
        """Renew with no time, or over 30 days, is ConfigurationError, and the sandbox's end stays where it was."""
        for seconds in (0, -1, float("nan"), float("inf"), 30 * 86_400 + 1, "60", True):
            with pytest.raises(ConfigurationError, match="renew"):
                await sandbox.renew(seconds)  # type: ignore[arg-type]
        await sandbox.metrics()

    async def test_idle_time_ends_it(self) -> None:
        """When nothing has been asked of it for idle_timeout= the sandbox is lost, and the error says so."""

        async def begin(idle: float) -> tuple[ISandbox, float]:
            with within(idle):
                made = await self.create(idle_timeout=idle)
                async with closed_if_it_fails(made):
                    await made.files.write("x", "in use")
            return made, idle

        made, idle = await in_time_async(begin)
        await asyncio.sleep(2 * idle)  # without a question, which may be use
        assert "idle" in await lost(made)
        await made.close()

    async def test_one_key_is_one_sandbox(self) -> None:
        """The same idempotency_key with the same options is the same sandbox, also at once; with others ConfigurationError."""
        key = secrets.token_hex(8)
        options: dict[str, Any] = {"idempotency_key": key, "env": {"TOKEN": "one"}, "labels": {"job": "1"}}
        first, second, third = await asyncio.gather(*(self.create(**options) for _ in range(3)))
        assert first.info.id == second.info.id == third.info.id
        await first.files.write("x", "shared")
        assert await second.files.read_text("x") == "shared"
        others: list[dict[str, Any]] = [{"env": {"TOKEN": "two"}}, {"labels": {}}, {"lifetime": 601}, {"idle_timeout": 60}]
        for other in others:
            with pytest.raises(ConfigurationError, match="idempotency_key") as caught:
                await self.create(**{**options, **other})
            assert key not in str(caught.value)
        async with self.create(idempotency_key=f"{key}-other") as other_key:
            assert other_key.info.id != first.info.id
        await second.detach()
        await third.detach()
        await first.close()

    async def test_a_key_is_used_once(self) -> None:
        """When the sandbox of a key has ended, asking again is SandboxNotFoundError: never a second one under it."""
        key = secrets.token_hex(8)
        async with self.create(idempotency_key=key):
            pass
        with pytest.raises(SandboxNotFoundError):
            await self.create(idempotency_key=key)

    async def test_a_cancelled_creation_may_be_tried_again(self) -> None:
        """A creation under a key that is cancelled at any moment may be tried again: the sandbox is made, or is still there."""
        for wait in (0.0, 0.002, 0.02, 0.1):
            key = secrets.token_hex(8)
            task = asyncio.ensure_future(self.create(idempotency_key=key))
            await asyncio.sleep(wait)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await (await task).detach()
            async with self.create(idempotency_key=key) as made:
                await made.files.write("x", "y")

    async def test_a_plain_with_on_a_connection_says_what_to_write(self, sandbox: ISandbox) -> None:
        """A plain `with` on the async connect is a TypeError that names `async with`."""
        with pytest.raises(TypeError, match="async with"), self.connect(sandbox.info.id):
            pass

    async def test_a_connection_has_its_own_events(self) -> None:
        """A handle from connect hears connected first and detached last; its maker hears nothing of that."""
        makers: list[Event] = []
        clients: list[Event] = []
        async with self.create(on_event=makers.append) as made:
            async with self.connect(made.info.id, on_event=clients.append) as connected:
                await connected.files.list()
            assert [event.kind for event in clients] == ["connected", "detached"]
            assert {event.sandbox_id for event in clients} == {made.info.id}
        assert [event.kind for event in makers] == ["created", "closed"]

    async def test_after_a_fork_a_connection_is_closed(self) -> None:
        """In a forked child a connected handle is SandboxClosedError, at once; the parent's goes on."""
        async with self.create() as made, self.connect(made.info.id) as connected:
            for verb in (connected.files.list, connected.metrics):
                assert in_forked_child(lambda verb=verb: asyncio.run(verb())) == "SandboxClosedError"  # type: ignore[misc]
            await connected.files.write("x", "y")
