"""The conformance suite on the native backends, through both interfaces."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from isandbox import ISandbox, create_sandbox
from isandbox._request import make_request
from isandbox.testing import SandboxContract
from isandbox.testing.contract.over_sync import OverSync, OverSyncCreation

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


class BlockingContract(NativeContract):
    """The same promises through `isandbox.sync`, each call in a thread of its own."""

    @classmethod
    def create(cls, **options: Any) -> Any:
        backend, request = make_request(cls.backend, **options)
        return OverSyncCreation(lambda: backend.create_blocking(request))

    async def lose(self, sandbox: ISandbox) -> None:
        assert isinstance(sandbox, OverSync)
        os.kill(helper_pid(sandbox.inner), signal.SIGKILL)


class TestSeccomp(NativeContract):
    backend = "seccomp"


class TestSeccompBlocking(BlockingContract):
    backend = "seccomp"


class TestLocal(NativeContract):
    backend = "local"


class TestLocalBlocking(BlockingContract):
    backend = "local"


class TestLocalPython(NativeContract):
    """The helper in Python, which `local` falls back to where there is no native one."""

    backend = "local"

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox("local", **{"helper": "python", **options})
