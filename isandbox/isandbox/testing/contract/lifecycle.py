"""From create to close."""

from __future__ import annotations

import asyncio
import os
import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import psutil
import pytest

from isandbox import (
    Capabilities,
    ConfigurationError,
    Event,
    ISandbox,
    Quotas,
    SandboxClosedError,
    SandboxError,
    UnsupportedError,
    Workspace,
)
from isandbox.testing.contract.base import OWNED, Contract, host_command_lines, in_forked_child, marker, processes, until


class LifecyclePromises(Contract):
    """Making and closing sandboxes, and what they say of themselves; no command is needed."""

    async def test_info_tells_what_was_made(self, sandbox: ISandbox) -> None:
        """The id carries the backend's prefix; backend, isolation and capabilities are told; workspace is absolute."""
        info = sandbox.info
        assert info.id.startswith(f"{info.backend}-")
        assert info.isolation == info.capabilities.isolation
        assert info.workspace.startswith("/")
        assert isinstance(info.capabilities, Capabilities)

    async def test_close_is_idempotent(self) -> None:
        """Closing twice, and from two tasks at once, is fine; the handle then says closed."""
        sandbox = await self.create()
        await asyncio.gather(sandbox.close(), sandbox.close())
        await sandbox.close()
        with pytest.raises(SandboxClosedError):
            await sandbox.exec("true")
        with pytest.raises(SandboxClosedError):
            await sandbox.files.read_bytes("x")

    async def test_a_plain_with_says_what_to_write(self) -> None:
        """A plain `with` on the async factory is a TypeError that names `async with`."""
        with pytest.raises(TypeError, match="async with"), self.create():
            pass

    async def test_options_are_checked_when_called(self) -> None:
        """Unknown options, bad quotas and impossible environments fail in the call, before anything is awaited."""
        with pytest.raises(ConfigurationError, match="no_such_option"):
            self.create(no_such_option=1)
        with pytest.raises(ConfigurationError):
            self.create(env={"A=B": "x"})
        with pytest.raises(ConfigurationError):
            self.create(start_timeout=-1)

    async def test_min_isolation_is_held(self, sandbox: ISandbox) -> None:
        """A minimum above the backend's own level is refused; its own level is not."""
        with pytest.raises(ConfigurationError):
            self.create(min_isolation="very")
        if sandbox.info.isolation != "vm":
            with pytest.raises(UnsupportedError, match="min_isolation"):
                self.create(min_isolation="vm")
        async with self.create(min_isolation=sandbox.info.isolation) as same:
            assert same.info.isolation == sandbox.info.isolation

    async def test_what_cannot_be_done_is_refused_by_name(self, sandbox: ISandbox) -> None:
        """An optional verb that the record does not claim is UnsupportedError with the verb's name."""
        for verb in ("pause", "resume", "snapshot", "fork", "detach"):
            if verb not in sandbox.info.capabilities.verbs:
                with pytest.raises(UnsupportedError, match=verb):
                    await getattr(sandbox, verb)()

    async def test_leaving_the_context_closes(self) -> None:
        """Leaving `async with` closes the sandbox, also when the body raises; the body's error is the one that comes out."""
        with pytest.raises(LookupError, match="mine"):
            async with self.create() as sandbox:
                raise LookupError("mine")
        with pytest.raises(SandboxClosedError):
            await sandbox.files.list()

    async def test_every_verb_says_closed(self) -> None:
        """After close every verb is SandboxClosedError with code closed and outcome none, and info can still be read."""
        sandbox = await self.create()
        await sandbox.close()
        files = sandbox.files
        for attempt in (
            *(files.stat("x"), files.read_bytes("x"), files.write("x", ""), files.list(), files.exists("x")),
            *(files.make_dir("x"), files.remove("x"), files.rename("x", "y"), sandbox.metrics()),
            *(sandbox.exec(["x"]), sandbox.start("x")),
        ):
            with pytest.raises(SandboxClosedError) as caught:
                await attempt
            assert (caught.value.code, caught.value.outcome, caught.value.retryable) == ("closed", "none", False)
        assert sandbox.info.id in repr(sandbox)

    async def test_ids_are_unique(self) -> None:
        """Each sandbox has an id of its own, also when one creation is awaited twice."""
        creation = self.create()
        made = [await creation, await creation, await self.create()]
        for sandbox in made:
            await sandbox.close()
        assert len({sandbox.info.id for sandbox in made}) == 3

    async def test_a_creation_that_is_not_awaited_makes_nothing(self) -> None:
        """Until it is awaited, what create returns has made nothing, and it can be dropped without a word."""
        events: list[Event] = []
        creation = self.create(on_event=events.append)
        del creation
        await asyncio.sleep(0)
        assert events == []

    async def test_labels_come_back(self) -> None:
        """labels= are in info as they were given, a copy; what are no texts is ConfigurationError."""
        labels = {"job": "42", "": "empty"}
        async with self.create(labels=labels) as sandbox:
            labels.clear()
            assert sandbox.info.labels == {"job": "42", "": "empty"}
        with pytest.raises(ConfigurationError, match="labels"):
            self.create(labels={"job": 42})

    async def test_info_is_a_record(self, sandbox: ISandbox) -> None:
        """Info cannot be changed, pickles, and was made with the time zone said."""
        info = sandbox.info
        with pytest.raises((FrozenInstanceError, AttributeError)):
            info.id = "other"  # type: ignore[misc]
        assert pickle.loads(pickle.dumps(info)) == info  # noqa: S301 - our own bytes
        assert info.created_at.tzinfo is not None

    async def test_the_record_says_how_each_limit_is_held(self, sandbox: ISandbox) -> None:
        """Each entry of the capability record is kernel, watched with a period, or unsupported with what to do instead, under
        a name that create knows.
        """
        capabilities = sandbox.info.capabilities
        assert set(capabilities.quotas) <= set(Quotas.__dataclass_fields__)
        assert {name.partition(".")[0] for name in capabilities.policies} <= {"workspace", "mounts", "network"}
        for entry in (*capabilities.quotas.values(), *capabilities.policies.values()):
            assert entry.kind in ("kernel", "watched", "unsupported")
            assert entry.kind != "watched" or (entry.period or 0) > 0
            assert entry.kind != "unsupported" or entry.instead

    async def test_renew_is_honoured_or_refused(self, sandbox: ISandbox) -> None:
        """Renew succeeds where there is a lifetime, else it is UnsupportedError with its name: never a silent nothing."""
        verbs = sandbox.info.capabilities.verbs
        if "renew" in verbs:
            async with self.create(lifetime=600) as lasting:
                await lasting.renew(3600)
        async with self.create(**OWNED) as endless:
            with pytest.raises(UnsupportedError) as caught:
                await endless.renew(3600)
        assert (caught.value.option, caught.value.backend) == ("renew", sandbox.info.backend)

    async def test_a_life_is_honoured_or_refused(self, sandbox: ISandbox) -> None:
        """lifetime=, idle_timeout= and detached= are taken where the record's verbs claim them, else UnsupportedError names them."""
        verbs = sandbox.info.capabilities.verbs
        options: dict[str, dict[str, Any]] = {
            "lifetime": {**OWNED, "lifetime": 600},
            "idle_timeout": {**OWNED, "idle_timeout": 600},
            "detached": {"detached": True, "lifetime": 600},
        }
        for option, given in options.items():
            if ("detach" if option == "detached" else "lifetime") in verbs:
                async with self.create(**given) as made:
                    await made.files.write("x", "y")
                continue
            with pytest.raises(UnsupportedError) as caught:
                self.create(**given)
            assert (caught.value.option, caught.value.backend) == (option, sandbox.info.backend)

    async def test_an_impossible_life_is_refused(self) -> None:
        """Times that are none or over 30 days, detached without an end, a key without detached: ConfigurationError, in the call."""
        for value in (0, -1, float("nan"), float("inf"), 30 * 86_400 + 1, "60", True):
            for option in ("lifetime", "idle_timeout"):
                with pytest.raises(ConfigurationError, match=option):
                    self.create(**{option: value})
        with pytest.raises(ConfigurationError, match="lifetime"):
            self.create(detached=True, lifetime=None)
        with pytest.raises(ConfigurationError, match="detached"):
            self.create(**OWNED, idempotency_key="k")
        with pytest.raises(ConfigurationError, match="idempotency_key"):
            self.create(detached=True, lifetime=60, idempotency_key="")

    async def test_birth_and_end_are_events(self) -> None:
        """on_event hears created first and closed last, each once, with the sandbox's id and the time; file verbs are silent."""
        events: list[Event] = []
        async with self.create(on_event=events.append) as sandbox:
            await sandbox.files.write("x", "never-in-an-event")
            await sandbox.close()
        assert [event.kind for event in events] == ["created", "closed"]
        assert {event.sandbox_id for event in events} == {sandbox.info.id}
        assert sandbox.info.created_at.timestamp() - 2 < events[0].at <= events[1].at
        assert "never-in-an-event" not in repr(events)

    async def test_after_a_fork_a_handle_is_closed(self, sandbox: ISandbox) -> None:
        """In a forked child the handle is SandboxClosedError, at once; the parent's goes on."""
        for verb in (lambda: sandbox.exec("true"), sandbox.files.list):
            assert in_forked_child(lambda verb=verb: asyncio.run(verb())) == "SandboxClosedError"  # type: ignore[misc]
        await sandbox.files.write("after-the-fork", "x")
        assert await sandbox.files.read_text("after-the-fork") == "x"


class LifecycleCommandPromises(Contract):
    """What a life means for commands."""

    async def test_closing_ends_running_commands(self) -> None:
        """A command that runs while its sandbox is closed is neither a result nor a hang: SandboxClosedError."""
        sandbox = await self.create()
        task = asyncio.create_task(sandbox.exec("sleep 60"))
        await asyncio.sleep(0.2)
        await sandbox.close()
        with pytest.raises(SandboxClosedError):
            await task

    async def test_sandboxes_do_not_share_files(self) -> None:
        """Two sandboxes at once do not see each other's workspace, home or temporary files."""
        async with self.create() as one, self.create() as two:
            await one.exec('echo 1 > mine; echo 1 > "$HOME/mine"; echo 1 > "$TMPDIR/mine"', check=True)
            result = await two.exec('ls mine "$HOME/mine" "$TMPDIR/mine" 2>/dev/null')
            assert result.stdout == ""

    async def test_events_tell_the_life(self) -> None:
        """on_event sees created, exec_started, exec_ended and closed, in that order, and no argv or output."""
        events: list[Event] = []
        async with self.create(on_event=events.append) as sandbox:
            await sandbox.exec("echo never-in-an-event")
        assert [event.kind for event in events] == ["created", "exec_started", "exec_ended", "closed"]
        assert {event.sandbox_id for event in events} == {sandbox.info.id}
        assert "never-in-an-event" not in repr(events)

    async def test_a_failing_event_sink_changes_nothing(self) -> None:
        """What on_event raises is logged and goes no further."""

        def sink(_: Event) -> None:
            raise RuntimeError("sink")

        async with self.create(on_event=sink) as sandbox:
            assert (await sandbox.exec("echo x")).stdout == "x\n"

    async def test_metrics_count_what_runs(self, sandbox: ISandbox) -> None:
        """Metrics counts the processes, memory and CPU time of what runs now."""
        async with await sandbox.start("sleep 7366 & sleep 7366 & wait") as process:
            assert process.pid is not None
            await asyncio.sleep(0.3)
            metrics = await sandbox.metrics()
        assert metrics.processes >= 3
        assert metrics.memory > 100_000

    async def test_closing_ends_what_lingers(self) -> None:
        """Background children, in sessions of their own or below a shell that killed itself, end with their sandbox."""
        nap = marker()
        async with self.create() as sandbox:
            await sandbox.exec(f"setsid sleep {nap} & exit 0")
            result = await sandbox.exec(f"(setsid sleep {nap} &) ; kill -9 $$")
            assert (result.signal, result.lingering) == (9, True)
            assert len(await processes(sandbox, nap)) == 2
        await until(lambda: not [line for line in host_command_lines() if nap in line], "gone with the sandbox")

    async def test_a_given_workspace_stays(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """A workspace of the caller's is used in place and outlives the sandbox; what is written there is its owner's."""
        if sandbox.info.capabilities.policy("workspace.rw").kind == "unsupported":
            with pytest.raises(UnsupportedError, match=r"workspace\.rw"):
                self.create(workspace=Workspace(str(tmp_path)))
            return
        (tmp_path / "given").write_text("before")
        async with self.create(workspace=Workspace(str(tmp_path))) as working:
            assert (await working.exec("cat given; echo command > by-command")).stdout == "before"
            await working.files.write("made/by-verb", "verb")
        made = [tmp_path / "by-command", tmp_path / "made/by-verb"]
        assert [path.read_text() for path in made] == ["command\n", "verb"]
        assert {os.stat(path).st_uid for path in (*made, tmp_path)} == {os.stat(tmp_path).st_uid}

    async def test_a_start_that_takes_too_long_is_an_error(self) -> None:
        """Past start_timeout creating is SandboxError, and nothing of the sandbox is left."""
        events: list[Event] = []
        before = {child.pid for child in psutil.Process().children()}
        with pytest.raises(SandboxError):
            await self.create(start_timeout=1e-6, on_event=events.append)
        assert events == []
        left = [child for child in psutil.Process().children() if child.pid not in before]
        assert left == []

    async def test_an_environment_goes_from_sandbox_to_command(self) -> None:
        """env= of create reaches every command and may replace the defaults; env= of exec comes before both."""
        async with self.create(env={"MINE": "sandbox", "LANG": "C"}) as sandbox:
            assert (await sandbox.exec("echo $MINE $LANG $USER")).stdout == "sandbox C user\n"
            result = await sandbox.exec("echo $MINE $LANG $USER", env={"MINE": "command", "USER": "other"})
            assert result.stdout == "command C other\n"
