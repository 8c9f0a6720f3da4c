"""Sandboxes that are one process's own."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from typing import TYPE_CHECKING

import pytest

from isandbox import ISandbox, SandboxNotFoundError, UnsupportedError
from isandbox.testing.contract.base import OWNED, Contract, host_command_lines, in_forked_child, marker

if TYPE_CHECKING:
    from pathlib import Path


class OwnedPromises(Contract):
    """An owned sandbox has one handle and one owner; no command is needed."""

    async def test_an_owned_sandbox_is_not_let_go(self, sandbox: ISandbox) -> None:
        """Detach on an owned sandbox is UnsupportedError with its name, and the handle is of use afterwards."""
        async with self.create(**OWNED) as owned:
            with pytest.raises(UnsupportedError, match="detach") as caught:
                await owned.detach()
            assert (caught.value.option, caught.value.backend) == ("detach", sandbox.info.backend)
            await owned.files.write("x", "still here")
            assert await owned.files.read_text("x") == "still here"

    async def test_an_owned_sandbox_is_not_connected_to(self) -> None:
        """Connect with the id of an owned sandbox is an error, while it lives and afterwards: only its owner reaches it."""
        async with self.create(**OWNED) as owned:
            with pytest.raises((UnsupportedError, SandboxNotFoundError)):
                await self.connect(owned.info.id)
            await owned.files.write("x", "still here")
        with pytest.raises((UnsupportedError, SandboxNotFoundError)):
            await self.connect(owned.info.id)


class OwnedCommandPromises(Contract):
    """What the end of an owner means for commands."""

    def test_a_killed_host_leaves_nothing_running(self, tmp_path: Path) -> None:
        """When the process that owns a sandbox is killed, every process of the sandbox ends by itself."""
        nap = marker()

        def live() -> None:
            tempfile.tempdir = str(tmp_path)  # what a killed host leaves on disk goes with the test
            sandbox = self.create_sync(**OWNED)
            process = sandbox.start(f"setsid sleep {nap} & echo ready; sleep {nap}")
            assert next(iter(process)) == ("stdout", b"ready\n")
            os.kill(os.getpid(), signal.SIGKILL)

        assert in_forked_child(live) == ""
        end = time.monotonic() + 30
        while any(nap in line for line in host_command_lines()):
            assert time.monotonic() < end, "it lives on without its owner"
            time.sleep(0.02)
