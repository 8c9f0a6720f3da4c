"""`create_sandbox`."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NoReturn

from isandbox._request import make_request, takes

if TYPE_CHECKING:
    from types import TracebackType

    from isandbox.backend import Backend, CreateRequest
    from isandbox.sandbox import ISandbox


class Creation:
    """What `create_sandbox` returns: ``await`` it for a sandbox to close yourself, or use it with ``async with``."""

    def __init__(self, backend: Backend, request: CreateRequest) -> None:
        self._backend = backend
        self._request = request
        self._sandbox: ISandbox | None = None

    def __await__(self) -> Generator[Any, None, ISandbox]:
        return self._backend.create(self._request).__await__()

    async def __aenter__(self) -> ISandbox:
        self._sandbox = await self._backend.create(self._request)
        return self._sandbox

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sandbox is not None:
            await self._sandbox.close()

    if not TYPE_CHECKING:  # a type checker is to say so before the program runs

        def __enter__(self) -> NoReturn:
            raise TypeError(
                "create_sandbox() is async: write 'async with create_sandbox(...) as sbx:', or use the blocking "
                "'from isandbox.sync import create_sandbox'"
            )

        def __exit__(self, *details: object) -> None:
            return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of a {self._backend.name} sandbox>"


@takes(make_request)
def create_sandbox(type: str | None = None, **options: Any) -> Creation:
    """Make a sandbox. ``await`` the value, or use it with ``async with``.

    ``type`` is one of the backend names; without it ``SANDBOX_TYPE`` decides, else the platform's native backend. Never a
    silent step down: a backend that cannot run here is `BackendUnavailableError`. What is not given is taken from ``isandbox.toml``
    and variables where they set it (docs/configuration.md), quotas one by one. A ``policy`` may be the path of a file with one.

    Options: ``workspace`` (a path or `Workspace`; without it an empty one that goes with the sandbox), ``mounts`` (`Mount` records),
    ``env``, ``quotas`` (`Quotas`), ``network`` (hosts; the default is none), ``start_timeout`` (seconds, default 60),
    ``labels``, ``min_isolation``, ``waive`` (names of quotas and mechanisms that may be missing), ``policy`` (a whole
    `Policy` instead of its parts), ``on_event``; those below; and the backend's own. All are checked when this is called:
    `ConfigurationError` for what is not valid, `UnsupportedError` for what this backend cannot enforce.

    **Life.** The sandbox ends with its owner: when it is closed, or this process dies. ``lifetime`` and ``idle_timeout`` (seconds,
    at most 30 days) end it sooner. With ``detached=True``, which needs a lifetime, it outlives this process: `isandbox.connect`
    finds it by its id, `ISandbox.detach` lets go of it, `close` and leaving ``async with`` still destroy it. An owned handle that is
    dropped without `close` warns; its processes end, what it left on disk stays.

    **Tried again.** With ``idempotency_key`` (1 to 255 printable characters; ``detached`` only) the same options under the same
    key give a handle on the one sandbox, in any process of yours. With other options it is `ConfigurationError`, after the end of
    that sandbox `SandboxNotFoundError`; a key is forgotten 24 hours after that. When another process has not come to an end with
    making it within ``start_timeout``: `SandboxError`, ``retryable``, with outcome ``unknown``.
    """
    backend, request = make_request(type, **options)
    return Creation(backend, request)


createSandbox = create_sandbox  # the name of the original design
