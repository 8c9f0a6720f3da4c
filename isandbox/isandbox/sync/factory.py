"""Blocking `create_sandbox`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from isandbox._request import make_request, takes
from isandbox.sync._blocking import refuse_in_loop

if TYPE_CHECKING:
    from isandbox.sync.sandbox import ISandbox


@takes(make_request)
def create_sandbox(type: str | None = None, **options: Any) -> ISandbox:
    """Make a sandbox; use it with ``with``, or close it yourself. Options and errors as `isandbox.create_sandbox`.

    `ConfigurationError` inside a running event loop: blocking there would stop everything else in it.
    """
    refuse_in_loop()
    backend, request = make_request(type, **options)
    return backend.create_blocking(request)


createSandbox = create_sandbox  # the name of the original design
