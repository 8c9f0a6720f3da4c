"""The conformance suite on the native backends, through both interfaces."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from isandbox import ISandbox, create_sandbox
from isandbox._request import make_request
from isandbox.testing import SandboxContract
from isandbox.testing.contract.base import Contract
from isandbox.testing.contract.limits import LimitPromises
from isandbox.testing.contract.over_sync import OverSync, OverSyncCreation

pytestmark = pytest.mark.native


def helper_pid(sandbox: Any) -> int:
    pid = sandbox._core.client.pid
    assert pid is not None
    return int(pid)


class Native(Contract):
    backend: str

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox(cls.backend, **options)

    async def lose(self, sandbox: ISandbox) -> None:
        os.kill(helper_pid(sandbox), signal.SIGKILL)


class NativeContract(Native, SandboxContract):
    """All of it."""


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


class Watched(Native):
    """Quotas as they are held where no control group can be made, on a machine where one can."""

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox(cls.backend, **{"cgroup": "never", **options})


class TestSeccompWatched(Watched, LimitPromises):
    backend = "seccomp"


class TestLocalWatched(Watched, LimitPromises):
    backend = "local"


class TestLocalPython(NativeContract):
    """The helper in Python, which `local` falls back to where there is no native one."""

    backend = "local"

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox("local", **{"helper": "python", **options})
