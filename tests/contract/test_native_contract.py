"""The conformance suite on the native backends, through both interfaces."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from isandbox import ISandbox, create_sandbox
from isandbox.testing import SandboxContract
from isandbox.testing.contract import ThroughSync, gaps_of

pytestmark = pytest.mark.native


def helper_pid(sandbox: Any) -> int:
    pid = sandbox._core.client.pid
    assert pid is not None
    return int(pid)


class NativeContract(SandboxContract):
    backend: str

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox(cls.backend, **options)

    async def lose(self, sandbox: ISandbox) -> None:
        os.kill(helper_pid(sandbox), signal.SIGKILL)


class TestSeccomp(NativeContract):
    backend = "seccomp"
    gaps = gaps_of("seccomp")


class TestSeccompBlocking(ThroughSync, TestSeccomp):
    """The same promises through `isandbox.sync`."""


class TestLocal(NativeContract):
    backend = "local"
    gaps = gaps_of("local")


class TestLocalBlocking(ThroughSync, TestLocal):
    """The same promises through `isandbox.sync`."""


class TestLocalPython(TestLocal):
    """The helper in Python, which `local` falls back to where there is no native one."""

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox("local", **{"helper": "python", **options})
