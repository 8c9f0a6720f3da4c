"""The conformance suite once more, with a helper that is compiled with the address and undefined behaviour sanitisers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from isandbox import ISandbox, create_sandbox
from isandbox._request import make_request
from isandbox.testing import SandboxContract
from isandbox.testing.contract.over_sync import OverSync, OverSyncCreation

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("with_sanitised_helper")]


@pytest.fixture(autouse=True)
def _nothing_is_reported(with_sanitised_helper: Any) -> Iterator[None]:
    yield
    assert with_sanitised_helper.report() == ""


class SanitisedContract(SandboxContract):
    backend: str

    @classmethod
    def create(cls, **options: Any) -> Any:
        return create_sandbox(cls.backend, **options)

    async def lose(self, sandbox: Any) -> None:
        os.kill(sandbox._core.client.pid, signal.SIGKILL)


class BlockingContract(SanitisedContract):
    @classmethod
    def create(cls, **options: Any) -> Any:
        backend, request = make_request(cls.backend, **options)
        return OverSyncCreation(lambda: backend.create_blocking(request))

    async def lose(self, sandbox: ISandbox) -> None:
        assert isinstance(sandbox, OverSync)
        await super().lose(sandbox.inner)


# The sources that are looked at are the same for every user: as a user with the full tests.
@pytest.mark.full if os.geteuid() != 0 else lambda unmarked: unmarked
class TestSeccomp(SanitisedContract):
    backend = "seccomp"


@pytest.mark.full
class TestLocal(SanitisedContract):
    backend = "local"


@pytest.mark.full
class TestSeccompBlocking(BlockingContract):
    backend = "seccomp"


@pytest.mark.full
class TestLocalBlocking(BlockingContract):
    backend = "local"
