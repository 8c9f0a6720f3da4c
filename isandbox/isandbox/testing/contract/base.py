"""What every group of promises stands on."""

from __future__ import annotations

import inspect
import secrets
from typing import TYPE_CHECKING, Any

import pytest_asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from isandbox import ISandbox


class Contract:
    """``create`` makes a sandbox; ``lose`` ends one behind its back. One sandbox serves a whole class."""

    @classmethod
    def create(cls, **options: Any) -> Any:
        """What `isandbox.create_sandbox` returns for the backend under test, with these options."""
        raise NotImplementedError

    async def lose(self, sandbox: ISandbox) -> None:
        """End the sandbox from outside, as a crash of its host would."""
        raise NotImplementedError

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def sandbox(cls) -> AsyncIterator[ISandbox]:
        async with cls.create() as sandbox:
            yield sandbox


def promises(group: type) -> Iterator[tuple[str, str]]:
    """``(name, sentence)`` of every promise in a group, in the order they are written."""
    for name, member in vars(group).items():
        if name.startswith("test_"):
            yield name.removeprefix("test_"), " ".join((inspect.getdoc(member) or "").split())


def marker() -> str:
    """Seconds for a ``sleep`` that nobody else on the machine sleeps: where /proc is the host's, others are seen too."""
    return f"7311.{secrets.randbelow(10**9):09}"


async def processes(sandbox: ISandbox, marker: str) -> list[str]:
    """Command lines inside that hold ``marker``, as the sandbox's own /proc shows them."""
    script = (
        "for p in /proc/[0-9]*; do c=$(tr '\\0' ' ' < $p/cmdline 2>/dev/null); "
        f'case "$c" in *\'for p in\'*) ;; *{marker}*) echo "$c";; esac; done'
    )
    result = await sandbox.exec(script, timeout=20)
    assert result.exit_code == 0, result
    return result.stdout.splitlines()
