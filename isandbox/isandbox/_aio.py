"""What generated blocking code does another way; `isandbox.sync._blocking` is its twin."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterable
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


async def each(function: Callable[[T], Awaitable[None]], items: Iterable[T], *, at_once: int) -> None:
    """Await ``function`` for every item, a few at once. The first error ends the others, and comes out when they have ended."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await function(item)

    workers = [asyncio.ensure_future(work()) for _ in range(at_once)]
    try:
        await asyncio.gather(*workers)
    except BaseException:
        for worker in workers:
            worker.cancel()
        while not all(worker.done() for worker in workers):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(workers)
        await asyncio.gather(*workers, return_exceptions=True)  # nobody else asks for their errors
        raise
