"""What generated blocking code does another way; `isandbox.sync._blocking` is its twin."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def call(callback: Callable[..., Any], *arguments: object) -> None:
    """Call a plain or async callback and wait for it."""
    value = callback(*arguments)
    if inspect.isawaitable(value):
        await value


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Run what waits for the host's disk in a thread, so that the loop goes on.

    A thread cannot be stopped. A cancelled call waits for it, because it works on what its caller closes next, and closes
    what it has made, because nobody will have it.
    """
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled() and task.exception() is None:
            close = getattr(task.result(), "close", None)
            if close is not None:
                close()
        raise
