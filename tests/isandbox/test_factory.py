"""`create_sandbox` and its value, in both interfaces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import isandbox.sync
from isandbox import ConfigurationError, Creation, Event, ISandbox, create_sandbox
from isandbox.backend import Backend, CreateRequest
from isandbox.factory import createSandbox
from isandbox.policy import Capabilities, Policy
from isandbox.sync._blocking import call
from isandbox.testing import FakeSandbox

ROOT = Path(__file__).resolve().parents[2]


class Toy(Backend):
    name = "toy"

    def unavailable(self) -> str | None:
        return None

    def capabilities(self) -> Capabilities:
        return Capabilities("none")

    async def create(self, request: CreateRequest) -> ISandbox:
        return FakeSandbox().otherwise("ok")


def creation() -> Creation:
    return Creation(Toy(), CreateRequest(Policy()))


def test_its_repr_says_what_it_would_make() -> None:
    """A value that nobody awaited is recognised in a log."""
    assert repr(creation()) == "<Creation of a toy sandbox>"


def test_a_plain_with_says_what_to_write() -> None:
    """The likeliest mistake gets the answer, not an AttributeError."""
    with pytest.raises(TypeError, match="async with"), creation():  # type: ignore[attr-defined]
        raise AssertionError("not reached")


async def test_await_and_async_with() -> None:
    """Awaited it is a sandbox to close; with async with it closes itself."""
    sandbox = await creation()
    assert (await sandbox.exec("x")).stdout == "ok"
    await sandbox.close()
    made = creation()
    async with made as inside:
        assert (await inside.exec("x")).ok
    with pytest.raises(isandbox.SandboxClosedError):
        await inside.exec("x")


def test_options_are_checked_when_it_is_called() -> None:
    """Not when it is awaited, which may be far from the mistake."""
    with pytest.raises(ConfigurationError):
        create_sandbox("no-such-thing")
    with pytest.raises(ConfigurationError):
        create_sandbox("local", quotas=isandbox.Quotas(), policy=Policy())


def test_both_names() -> None:
    """The name of the original design is the same function, in both interfaces."""
    assert createSandbox is create_sandbox is isandbox.createSandbox
    assert isandbox.sync.createSandbox is isandbox.sync.create_sandbox


async def test_blocking_in_a_running_loop_is_refused() -> None:
    """It would stop everything else in the loop."""
    with pytest.raises(ConfigurationError, match="event loop"):
        isandbox.sync.create_sandbox("local")
    with pytest.raises(ConfigurationError, match="event loop"):
        isandbox.sync.run("true", type="local")


def test_a_bridged_sandbox_in_a_running_loop_is_refused() -> None:
    """Each call is checked, not only the first: a loop that waits for the bridge's loop may wait for itself."""
    import asyncio

    sandbox = Toy().create_blocking(CreateRequest(Policy()))
    assert sandbox.exec("x").stdout == "ok"

    async def inside() -> None:
        sandbox.exec("x")

    with pytest.raises(ConfigurationError, match="event loop"):
        asyncio.run(inside())
    sandbox.close()


@pytest.mark.parametrize("option", ["on_stdout", "on_output"])
def test_an_async_callback_of_the_blocking_interface_is_refused(option: str) -> None:
    """It would never run: said at once, and no "never awaited" warning is left behind."""
    sandbox = Toy().create_blocking(CreateRequest(Policy()))

    async def callback(*_: Any) -> None: ...

    callbacks: dict[str, Any] = {option: callback}
    with sandbox, pytest.raises(ConfigurationError, match="plain callbacks"):
        sandbox.exec("x", **callbacks)


def test_a_plain_callback_is_called() -> None:
    """With its arguments."""
    seen: list[Any] = []
    call(lambda *arguments: seen.append(arguments), "stdout", "x")
    assert seen == [("stdout", "x")]


def test_the_blocking_code_is_up_to_date() -> None:
    """What is generated is what is checked in."""
    check = subprocess.run(
        [sys.executable, "scripts/unasync.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert check.returncode == 0, check.stdout


def test_an_event_is_frozen() -> None:
    """What happened does not change afterwards."""
    event = Event("created", "local-1", 1.0)
    assert dict(event.data) == {}
    with pytest.raises(AttributeError):
        event.kind = "lost"  # type: ignore[misc]
