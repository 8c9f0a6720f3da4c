"""What generated blocking code does another way than the async original in `isandbox._aio`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from isandbox.errors import ConfigurationError

T = TypeVar("T")


def call(callback: Callable[..., Any], *arguments: object) -> None:
    """Call a plain callback; an async one belongs to the async interface."""
    value = callback(*arguments)
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise ConfigurationError("isandbox.sync takes plain callbacks; use isandbox.create_sandbox for async ones")


def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """The caller's own thread may wait for the host's disk."""
    return function(*arguments)


def each(function: Callable[[T], None], items: Iterable[T], *, at_once: int) -> None:
    """One after the other: the caller has one thread."""
    del at_once
    for item in items:
        function(item)


def refuse_in_loop() -> None:
    """Raise `ConfigurationError` in a thread that runs an event loop: blocking there would stop everything else in it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError("isandbox.sync blocks; inside an event loop use isandbox.create_sandbox")
