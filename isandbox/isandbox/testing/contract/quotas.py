"""Quotas and policies: enforced or refused, and written down."""

from __future__ import annotations

from typing import Any

import pytest

from isandbox import ConfigurationError, ISandbox, Mount, Quotas, UnsupportedError, Workspace
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


class QuotaPromises(Contract):
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

    async def test_a_waiver_is_in_the_record(self, sandbox: ISandbox) -> None:
        """A waiver of something that the backend could hold is honoured and recorded; an unknown one is ConfigurationError."""
        async with self.create(waive={"output", "open_files"}) as waived:
            assert waived.info.waived == {"output", "open_files"}
        assert sandbox.info.waived == frozenset()
        with pytest.raises(ConfigurationError, match="no-such-layer"):
            self.create(waive={"no-such-layer"})

    async def test_the_quotas_in_force_are_told(self, sandbox: ISandbox) -> None:
        """info.quotas holds what was asked for, sizes in bytes, beside the defaults."""
        names = [name for name in ("open_files", "output") if sandbox.info.capabilities.quota(name).kind != "unsupported"]
        asked = Quotas(**{name: QUOTAS[name] for name in names})  # type: ignore[arg-type]
        async with self.create(quotas=asked) as limited:
            assert limited.info.quotas == asked
        assert sandbox.info.quotas == Quotas()

    async def test_a_part_of_a_cpu_is_enforced_or_refused(self, sandbox: ISandbox) -> None:
        """cpus=0.5 is held or UnsupportedError that names the quota; it is never rounded in silence."""
        refused: UnsupportedError | None = None
        try:
            made = self.create(quotas=Quotas(cpus=0.5))
        except UnsupportedError as error:
            refused = error
        if refused is not None:
            assert (refused.option, refused.backend) == ("quotas.cpus", sandbox.info.backend)
            return
        async with made as limited:
            assert limited.info.quotas.cpus == 0.5
            assert (await limited.exec("true")).ok

    async def test_open_files_are_bounded(self, sandbox: ISandbox) -> None:
        """A command has as many descriptors as its quota says, 1,024 without one, and cannot raise that; else it is refused."""
        script = "ulimit -Sn; ulimit -Hn; ulimit -n 100000 2>/dev/null || echo refused"
        if sandbox.info.capabilities.quota("open_files").kind == "unsupported":
            with pytest.raises(UnsupportedError, match="open_files"):
                self.create(quotas=Quotas(open_files=40))
            return
        assert (await sandbox.exec(script)).stdout.split() == ["1024", "1024", "refused"]
        async with self.create(quotas=Quotas(open_files=40)) as limited:
            assert (await limited.exec(script)).stdout.split() == ["40", "40", "refused"]

    async def test_the_output_quota_counts_both_streams_of_one_command(self, sandbox: ISandbox) -> None:
        """Quotas.output is for stdout and stderr together, for each command anew, and for what is not kept as well."""
        if sandbox.info.capabilities.quota("output").kind == "unsupported":
            with pytest.raises(UnsupportedError, match="output"):
                self.create(quotas=Quotas(output=100_000))
            return
        async with self.create(quotas=Quotas(output=100_000)) as limited:
            for _ in range(3):
                assert (await limited.exec("head -c 80000 /dev/zero")).fault is None
            result = await limited.exec("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2; sleep 30", max_output=10)
            assert result.fault == "output"
            assert (
                await limited.exec("head -c 120000 /dev/zero")
            ).fault == "output"  # and has ended before anybody can end it
