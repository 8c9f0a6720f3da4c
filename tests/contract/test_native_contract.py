"""The conformance suite on the native backends, through both interfaces."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from isandbox import ISandbox, create_sandbox
from isandbox.testing import DetachedContract, SandboxContract
from isandbox.testing.contract import ThroughSync, gaps_of
from isandbox.testing.contract.base import Contract
from isandbox.testing.contract.limits import LimitPromises
from isandbox_backends.seccomp.subordinate import Grant, find_grant

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


class TestSeccomp(NativeContract):
    backend = "seccomp"
    gaps = gaps_of("seccomp")


class TestSeccompBlocking(ThroughSync, TestSeccomp):
    """The same promises through `isandbox.sync`."""


@pytest.mark.full
class TestSeccompStrict(TestSeccomp):
    """A profile decides what commands may call, not what is promised about them."""

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox("seccomp", **{"profile": "strict", **options})


@pytest.mark.full
class TestSeccompDebug(TestSeccomp):
    """As strict."""

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox("seccomp", **{"profile": "debug", **options})


if os.geteuid() != 0 and isinstance(find_grant(), Grant):  # TestSeccomp has one id elsewhere, or root's

    @pytest.mark.full
    class TestSeccompSubordinate(TestSeccomp):
        """With the ids of /etc/subuid. Half a minute: `make test` runs the tests of what differs."""

        @classmethod
        def create(cls, **options: Any) -> Any:
            return create_sandbox("seccomp", **{"ids": "subordinate", **options})

    @pytest.mark.full
    class TestSeccompOneId(TestSeccomp):
        """With the one id that every user has, where there would be more."""

        @classmethod
        def create(cls, **options: Any) -> Any:
            return create_sandbox("seccomp", **{"ids": "single", **options})


class TestSeccompDetached(DetachedContract, Native):
    """Sandboxes that stay."""

    backend = "seccomp"
    gaps = gaps_of("seccomp")


class TestSeccompDetachedBlocking(ThroughSync, TestSeccompDetached):
    """The same promises through `isandbox.sync`."""


class TestLocalDetached(DetachedContract, Native):
    """Sandboxes that stay, without isolation."""

    backend = "local"
    gaps = gaps_of("local")


class TestLocalDetachedBlocking(ThroughSync, TestLocalDetached):
    """The same promises through `isandbox.sync`."""


class TestLocal(NativeContract):
    backend = "local"
    gaps = gaps_of("local")


class TestLocalBlocking(ThroughSync, TestLocal):
    """The same promises through `isandbox.sync`."""


class Watched(Native):
    """Quotas as they are held where no control group can be made, on a machine where one can."""

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox(cls.backend, **{"cgroup": "never", **options})


class TestSeccompWatched(Watched, LimitPromises):
    backend = "seccomp"


class TestLocalWatched(Watched, LimitPromises):
    backend = "local"


# It makes no difference between users: as root with the full tests.
@pytest.mark.full if os.geteuid() == 0 else lambda unmarked: unmarked
class TestLocalPython(TestLocal):
    """The helper in Python, which `local` falls back to where there is no native one."""

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox("local", **{"helper": "python", **options})
