"""A time-out may be longer than what the kernel's waits can be told: 24 days, the milliseconds of an int."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from isandbox import create_sandbox, sync

pytestmark = [
    pytest.mark.native,
    pytest.mark.parametrize(("backend", "options"), [("seccomp", {}), ("local", {}), ("local", {"helper": "python"})]),
    pytest.mark.parametrize("timeout", [2_147_483.5, 3_000_000.0, 4_200_000.0]),
]


def test_a_time_out_of_weeks(backend: str, options: dict[str, Any], timeout: float) -> None:
    """A command with one runs and ends, and another's short time-out is held beside it."""
    with sync.create_sandbox(backend, **options) as sandbox:
        process = sandbox.start(["sleep", "60"], timeout=timeout)
        assert sandbox.exec(["sleep", "30"], timeout=0.2).fault == "timeout"
        process.kill()
        assert process.wait().fault == "cancelled"
        assert sandbox.exec(["true"], timeout=timeout).ok


def test_a_time_out_of_weeks_in_a_loop(backend: str, options: dict[str, Any], timeout: float) -> None:
    """The same through the asynchronous interface."""

    async def main() -> None:
        async with create_sandbox(backend, **options) as sandbox:
            process = await sandbox.start(["sleep", "60"], timeout=timeout)
            assert (await sandbox.exec(["sleep", "30"], timeout=0.2)).fault == "timeout"
            await process.kill()
            assert (await process.wait()).fault == "cancelled"

    asyncio.run(main())
