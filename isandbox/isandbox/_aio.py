"""What generated blocking code does another way; `isandbox.sync._blocking` is its twin."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


async def call(callback: Callable[..., Any], *arguments: object) -> None:
    """Call a plain or async callback and wait for it."""
    value = callback(*arguments)
    if inspect.isawaitable(value):
        await value
