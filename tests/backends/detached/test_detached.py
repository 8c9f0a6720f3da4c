"""A detached sandbox from its making to its end, with clients in other processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import isandbox
from isandbox import ConfigurationError, Event, SandboxClosedError, SandboxLostError, SandboxNotFoundError, sync
from isandbox.policy import Quotas
from isandbox.testing.contract.base import in_time, within

from .conftest import LIFETIME, Other, eventually, leftovers, states

pytestmark = pytest.mark.native


def make(backend: str, **options: object) -> sync.ISandbox:
    return sync.create_sandbox(backend, detached=True, **{"lifetime": LIFETIME, **options})  # type: ignore[arg-type]


@contextlib.contextmanager
def closed_if_it_fails(sandbox: sync.ISandbox) -> Iterator[None]:
    try:
        yield
    except BaseException:
        sandbox.close()
        raise


MAKE = (
    f"s = sync.create_sandbox(args[0], detached=True, lifetime={LIFETIME}, env={{'COLOUR': 'green'}}, labels={{'job': '7'}})\n"
)


def test_it_outlives_its_maker(backend: str, other: Other, state: Path) -> None:
    """Made by a process that has gone: the same info, environment and files for whoever connects; close leaves nothing."""
    name, layers = other(
        MAKE + "s.files.write('note', 'from the maker')\nsay([s.info.id, dict(s.info.layers)])\ns.detach()", backend
    )
    with sync.connect(name) as sandbox:
        assert sandbox.connected
        assert sandbox.info.id == name
        assert dict(sandbox.info.layers) == layers
        assert sandbox.info.labels == {"job": "7"}
        assert sandbox.exec("echo $COLOUR; cat note").stdout == "green\nfrom the maker"
    assert [summary.id for summary in sync.list_sandboxes(labels={"job": "7"})] == [name]
    sandbox = sync.connect(name)
    sandbox.close()
    assert leftovers(name, state) == []
    with pytest.raises(SandboxNotFoundError, match="has ended"):
        sync.connect(name)
    assert sync.kill_sandbox(name) is False


def test_its_maker_just_dies(backend: str, other: Other) -> None:
    """A process that is gone without a word, once it had the handle, leaves the sandbox to others."""
    name = other(MAKE + "say(s.info.id)\nimport os\nos._exit(0)", backend)
    with sync.connect(name) as sandbox:
        assert sandbox.exec(["true"]).ok
    assert sync.kill_sandbox(name) is True


def test_at_exit_and_when_dropped(backend: str, other: Other) -> None:
    """An interpreter that goes down lets go; a handle that is dropped lets go with a warning; the sandbox lives on."""
    name = other(MAKE + "say(s.info.id)", backend)
    held = [sync.connect(name)]
    with pytest.warns(ResourceWarning, match="never closed or detached"):
        held.clear()
    with sync.connect(name) as sandbox:
        assert sandbox.exec(["true"]).ok
    assert sync.kill_sandbox(name) is True


def test_detach(backend: str) -> None:
    """The handle is closed afterwards, twice is nothing, closing it then ends nothing."""
    sandbox = make(backend)
    sandbox.detach()
    sandbox.detach()
    with pytest.raises(SandboxClosedError):
        sandbox.exec(["true"])
    sandbox.close()
    again = sync.connect(sandbox.info.id)
    assert again.exec(["true"]).ok
    again.close()
    again.detach()


def test_the_end_of_a_handle_ends_its_commands(backend: str) -> None:
    """Commands of a client that lets go end; those of another do not."""
    sandbox = make(backend)
    with sync.connect(sandbox.info.id) as mine:
        theirs = sandbox.start(["sleep", "100"])
        with sync.connect(sandbox.info.id) as third:
            own = third.start(["sleep", "100"])
            assert eventually(lambda: sandbox.metrics().processes >= 2)
        with pytest.raises(SandboxClosedError):
            own.wait()
        assert eventually(lambda: mine.metrics().processes == 1)
        theirs.kill()
        assert theirs.wait().fault == "cancelled"
    sandbox.close()


TWO = """
import asyncio, isandbox
async def main():
    async with isandbox.connect(args[0]) as s:
        results = await asyncio.gather(*(s.exec(f"echo {args[1]}{i}; echo {args[1]} > {args[1]}{i}; cat") for i in range(20)))
        own = sorted(r.stdout.strip() for r in results)
        await s.files.write(args[1], "x" * 300_000)
        return own, len(await s.files.read_bytes(args[1]))
say(asyncio.run(main()))
"""


def test_two_clients_at_once(backend: str, other: Other) -> None:
    """Two processes that run commands and move files in one sandbox do not mix anything up."""
    import json

    sandbox = make(backend)
    running = [other(TWO, sandbox.info.id, word, wait=False) for word in "ab"]
    answers = []
    for process in running:
        out, _ = process.communicate(timeout=90)
        assert process.returncode == 0
        answers.append(json.loads(out))
    for word, (own, size) in zip("ab", answers, strict=True):
        assert own == sorted(f"{word}{i}" for i in range(20))
        assert size == 300_000
    assert len([entry for entry in sandbox.files.list(".") if entry.name.startswith(("a", "b"))]) == 42
    sandbox.close()


def test_memory_for_all_clients(backend: str, other: Other) -> None:
    """The quota is the sandbox's: a command of a connected client is ended over it, and the sandbox lives on."""
    sandbox = make(backend, quotas=Quotas(memory="96MiB"))
    hog = "with sync.connect(args[0]) as s: say(s.exec(['python3', '-c', 'x = bytearray(300 << 20)']).fault)"
    assert other(hog, sandbox.info.id) == "oom"
    assert sandbox.exec(["true"]).ok
    sandbox.close()


def test_the_output_quota_for_all_clients(backend: str, other: Other) -> None:
    """A connected client has the quota on output that the sandbox was made with."""
    sandbox = make(backend, quotas=Quotas(output=1000))
    assert other("with sync.connect(args[0]) as s: say(s.exec('yes').fault)", sandbox.info.id) == "output"
    sandbox.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups are made by root here")
def test_a_control_group_for_all_clients(backend: str, other: Other, state: Path) -> None:
    """With a group the clients' commands run in it, also those of clients that died; nothing of it is left in the end."""
    sandbox = make(backend, quotas=Quotas(memory="64MiB", cpu_time=30), cgroup="require")
    hog = "with sync.connect(args[0]) as s: say(s.exec(['python3', '-c', 'x = bytearray(300 << 20)']).fault)"
    assert other(hog, sandbox.info.id) == "oom"
    other("s = sync.connect(args[0])\nsay(s.exec(['true']).exit_code)\nimport os\nos._exit(0)", sandbox.info.id)
    with sync.connect(sandbox.info.id) as again:
        assert again.exec(["true"]).ok
        assert "cgroup" in again.info.layers
    assert sandbox.exec(["true"]).ok
    sandbox.close()
    assert leftovers(sandbox.info.id, state) == []


def test_the_end_of_a_lifetime(backend: str, state: Path) -> None:
    """Whoever uses it is told what ended it; then it is not found, and a reap removes what it left."""

    def begin(lifetime: float) -> sync.ISandbox:
        with within(lifetime):
            return make(backend, lifetime=lifetime)

    sandbox = in_time(begin)
    with pytest.raises(SandboxLostError, match="lifetime has ended"):
        sandbox.exec(["sleep", "60"])
    with pytest.raises(SandboxLostError, match="lifetime has ended"):
        sandbox.exec(["true"])
    sandbox.detach()
    assert eventually(lambda: [s.state for s in sync.list_sandboxes() if s.id == sandbox.info.id] == ["ended"])
    assert sandbox.info.id in sync.reap().removed
    assert sandbox.info.id not in sync.reap().removed
    assert leftovers(sandbox.info.id, state) == []
    with pytest.raises(SandboxNotFoundError, match="has ended"):
        sync.connect(sandbox.info.id)


def test_a_renewed_lifetime(backend: str) -> None:
    """It lives on for the new time, by anybody's renewal, and the list says until when."""

    def begin(lifetime: float) -> tuple[sync.ISandbox, float]:
        with within(lifetime):
            sandbox = make(backend, lifetime=lifetime)
            with closed_if_it_fails(sandbox), sync.connect(sandbox.info.id) as another:
                another.renew(LIFETIME)
        return sandbox, lifetime

    sandbox, before = in_time(begin)
    (summary,) = [summary for summary in sync.list_sandboxes() if summary.id == sandbox.info.id]
    assert summary.expires_at is not None
    assert abs(summary.expires_at.timestamp() - time.time() - LIFETIME) < 60
    assert sandbox.exec(["sleep", str(before + 0.5)]).ok
    with pytest.raises(ConfigurationError):
        sandbox.renew(0)
    sandbox.renew(0.5)
    with pytest.raises(SandboxLostError, match="lifetime has ended"):
        sandbox.exec(["sleep", "30"])
    sandbox.close()


def test_an_idle_sandbox(backend: str) -> None:
    """A command keeps it, a handle alone does not."""

    def begin(idle: float) -> tuple[sync.ISandbox, sync.IProcess]:
        with within(idle):
            sandbox = make(backend, idle_timeout=idle)
            with closed_if_it_fails(sandbox):
                return sandbox, sandbox.start(["sleep", str(idle * 1.5)])

    sandbox, process = in_time(begin)
    assert process.wait().ok
    assert eventually(lambda: [s.state for s in sync.list_sandboxes() if s.id == sandbox.info.id] == ["ended"], 60)
    with pytest.raises(SandboxLostError, match="idle_timeout"):
        sandbox.exec(["true"])
    sandbox.close()


@pytest.mark.parametrize("option", ["lifetime", "idle_timeout"])
def test_the_life_of_an_owned_sandbox(backend: str, option: str) -> None:
    """An owned one may have an end as well, and says which it was."""

    def begin(life: float) -> tuple[sync.ISandbox, float]:
        with within(life):
            sandbox = sync.create_sandbox(backend, **{option: life})  # type: ignore[arg-type]
            if option == "lifetime":
                with closed_if_it_fails(sandbox):
                    sandbox.renew(life * 1.5)
        return sandbox, life

    sandbox, life = in_time(begin)
    with pytest.raises(SandboxLostError, match=option):  # noqa: PT012 - a command that runs keeps it from being idle
        for _ in range(20):
            time.sleep(life * 1.1)
            sandbox.exec(["true"])
    sandbox.close()


def test_events(backend: str) -> None:
    """A handle tells what it does and finds out, not what others do."""
    heard: list[Event] = []
    sandbox = make(backend, on_event=heard.append)
    mine: list[Event] = []
    with sync.connect(sandbox.info.id, on_event=mine.append) as another:
        another.exec(["true"])
    sandbox.close()
    assert [event.kind for event in heard] == ["created", "closed"]
    assert [event.kind for event in mine] == ["connected", "exec_started", "exec_ended", "detached"]


def test_close_by_another(backend: str) -> None:
    """A handle whose sandbox somebody else has closed finds it lost, and says so."""
    sandbox = make(backend)
    sync.connect(sandbox.info.id).close()
    with pytest.raises(SandboxLostError, match="somebody else has closed it"):
        sandbox.exec(["true"])
    sandbox.close()


def test_after_a_fork(backend: str) -> None:
    """In a forked child a handle is closed, and what the child does or is ends nothing."""
    sandbox = make(backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            sandbox.exec(["true"])
        except SandboxClosedError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert sandbox.exec(["true"]).ok
    sandbox.close()


def test_the_async_interface(backend: str, state: Path) -> None:
    """The same through asyncio: made, connected, renewed, detached, closed."""

    async def main() -> str:
        async with isandbox.create_sandbox(backend, detached=True, lifetime=LIFETIME) as sandbox:
            async with isandbox.connect(sandbox.info.id) as another:
                assert (await another.exec("echo hello")).stdout == "hello\n"
                await another.renew(LIFETIME)
            with pytest.raises(SandboxClosedError):
                await another.exec(["true"])
            assert (await sandbox.exec(["true"])).ok
        return sandbox.info.id

    name = asyncio.run(main())
    assert leftovers(name, state) == []


@pytest.mark.parametrize("rounds", [0, 3, 10, 40])
def test_a_creation_that_is_cancelled(backend: str, rounds: int, state: Path) -> None:
    """Cancelled at whatever it is doing: no sandbox, no row, no directory."""

    async def main() -> None:
        async def made() -> None:
            async with isandbox.create_sandbox(backend, detached=True, lifetime=LIFETIME):
                await asyncio.sleep(60)

        task = asyncio.create_task(made())
        for _ in range(rounds):
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task], timeout=60)
        assert task.cancelled()

    asyncio.run(main())
    assert "running" not in states(state)
    assert not list((state / "sandboxes").glob("*"))


def test_killing_it_from_outside(backend: str, other: Other, state: Path) -> None:
    """SIGKILL to its helper: lost to those who use it, ended for the list, removed by a reap."""
    from isandbox_backends._shared.detached.processes import helpers

    sandbox = make(backend)
    assert sandbox.exec(["true"]).ok
    for helper in [found for found in helpers() if found.id == sandbox.info.id]:
        with contextlib.suppress(ProcessLookupError):  # the end of one is the end of others
            os.kill(helper.pid, signal.SIGKILL)
    with pytest.raises(SandboxLostError):
        sandbox.exec(["true"])
    sandbox.detach()
    assert sandbox.info.id in other("say(list(sync.reap().removed))")
    assert leftovers(sandbox.info.id, state) == []
