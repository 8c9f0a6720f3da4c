"""From create to close."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from isandbox import (
    Capabilities,
    ConfigurationError,
    Event,
    ISandbox,
    Mount,
    Quotas,
    SandboxClosedError,
    UnsupportedError,
    Workspace,
)
from isandbox.testing.contract.base import Contract

# A value for each quota that a backend could honour if it honours the quota at all.
QUOTAS = {
    "cpus": 1,
    "cpu_time": 60,
    "memory": "256MiB",
    "disk": "64MiB",
    "pids": 64,
    "open_files": 128,
    "file_size": "8MiB",
    "output": "1MiB",
}


class LifecyclePromises(Contract):
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

    async def test_every_quota_is_enforced_or_refused(self, sandbox: ISandbox) -> None:
        """Each quota that the record calls unsupported is UnsupportedError at create; each other one makes a sandbox."""
        capabilities = sandbox.info.capabilities
        for name, value in QUOTAS.items():
            quotas = Quotas(**{name: value})  # type: ignore[arg-type]
            if capabilities.quota(name).kind == "unsupported":
                with pytest.raises(UnsupportedError, match=name) as caught:
                    self.create(quotas=quotas)
                assert caught.value.backend == sandbox.info.backend
            else:
                async with self.create(quotas=quotas) as limited:
                    assert (await limited.exec("echo x")).stdout == "x\n"

    async def test_an_unsupported_quota_may_be_waived(self, sandbox: ISandbox) -> None:
        """waive= is the one way past a refusal, and the sandbox's record says so."""
        unsupported = [name for name in QUOTAS if sandbox.info.capabilities.quota(name).kind == "unsupported"]
        for name in unsupported:
            async with self.create(quotas=Quotas(**{name: QUOTAS[name]}), waive={name}) as waived:  # type: ignore[arg-type]
                assert waived.info.waived == {name}

    async def test_every_policy_is_enforced_or_refused(self, sandbox: ISandbox, tmp_path: object) -> None:
        """Mounts, a read-only workspace and a network demand are honoured or UnsupportedError, as the record says."""
        asked: dict[str, dict[str, Any]] = {
            "mounts": {"mounts": [Mount("/usr", "/opt/usr")]},
            "workspace.ro": {"workspace": Workspace(str(tmp_path), mode="ro")},
            "workspace.rw": {"workspace": Workspace(str(tmp_path), mode="rw")},
            "workspace.overlay": {"workspace": Workspace(str(tmp_path), mode="overlay")},
            "network.none": {"network": []},
            "network.hosts": {"network": ["example.com"]},
        }
        for name, options in asked.items():
            if sandbox.info.capabilities.policy(name).kind == "unsupported":
                with pytest.raises(UnsupportedError):
                    self.create(**options)
            else:
                async with self.create(**options) as made:
                    assert (await made.exec("true")).ok

    async def test_min_isolation_is_held(self, sandbox: ISandbox) -> None:
        """A minimum above the backend's own level is refused; its own level is not."""
        with pytest.raises(ConfigurationError):
            self.create(min_isolation="very")
        if sandbox.info.isolation != "vm":
            with pytest.raises(UnsupportedError, match="min_isolation"):
                self.create(min_isolation="vm")
        async with self.create(min_isolation=sandbox.info.isolation) as same:
            assert same.info.isolation == sandbox.info.isolation

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

    async def test_what_cannot_be_done_is_refused_by_name(self, sandbox: ISandbox) -> None:
        """An optional verb that the record does not claim is UnsupportedError with the verb's name."""
        for verb in ("pause", "resume", "snapshot", "fork", "detach"):
            if verb not in sandbox.info.capabilities.verbs:
                with pytest.raises(UnsupportedError, match=verb):
                    await getattr(sandbox, verb)()

    async def test_metrics_count_what_runs(self, sandbox: ISandbox) -> None:
        """Metrics counts the processes, memory and CPU time of what runs now."""
        async with await sandbox.start("sleep 7366 & sleep 7366 & wait") as process:
            assert process.pid is not None
            await asyncio.sleep(0.3)
            metrics = await sandbox.metrics()
        assert metrics.processes >= 3
        assert metrics.memory > 100_000
