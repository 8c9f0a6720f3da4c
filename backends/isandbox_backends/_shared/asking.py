"""Questions to a helper: each is answered on a descriptor of its own, so that nobody has to dispatch answers."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import time
from typing import TYPE_CHECKING

from isandbox.errors import SandboxError, SandboxLostError
from isandbox_backends._shared.answers import ANSWER_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from isandbox_backends._shared.link import HelperLink
    from isandbox_backends._shared.protocol import Question

# A helper answers at once; one that has not for this long is lost.
_ANSWER = 5.0


async def ask(link: HelperLink, what: Question, *, id: int = 0, value: int = 0) -> bytes:
    """The whole answer. Raises `SandboxLostError`, `SandboxClosedError`, `SandboxError` for want of descriptors."""
    with _asking() as pair:
        link.ask(what, pair, id=id, value=value)
        ours, answer = pair[0], bytearray()
        ours.setblocking(False)
        deadline = time.monotonic() + _ANSWER
        try:
            while len(answer) <= ANSWER_MAX:
                await _readable(ours.fileno(), deadline)
                data = ours.recv(ANSWER_MAX)
                if not data:
                    break
                answer += data
        except (OSError, TimeoutError) as error:
            raise _lost(link) from error
    return _checked(link, answer)


async def _readable(fd: int, deadline: float) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await asyncio.wait_for(ready, max(0.0, deadline - time.monotonic()))
    finally:
        loop.remove_reader(fd)


def ask_blocking(link: HelperLink, what: Question, *, id: int = 0, value: int = 0) -> bytes:
    """The same in the caller's thread."""
    with _asking() as pair:
        link.ask(what, pair, id=id, value=value)
        ours, answer = pair[0], bytearray()
        deadline = time.monotonic() + _ANSWER
        poll = select.poll()
        poll.register(ours, select.POLLIN)
        try:
            while len(answer) <= ANSWER_MAX:
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    raise _lost(link)
                data = ours.recv(ANSWER_MAX)
                if not data:
                    break
                answer += data
        except OSError as error:
            raise _lost(link) from error
    return _checked(link, answer)


@contextlib.contextmanager
def _asking() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A pair that is closed in the end, whatever a Ctrl-C leaves undone: sockets close themselves, numbers do not."""
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:
        raise SandboxError(f"the sandbox was not asked: this process cannot make a socket: {error}") from error
    with ours, theirs:
        yield ours, theirs


def _checked(link: HelperLink, answer: bytearray) -> bytes:
    if not answer:
        raise _lost(link)
    return bytes(answer)


def _lost(link: HelperLink) -> SandboxLostError:
    return SandboxLostError(f"the sandbox is gone: {link.farewell() or 'its first process does not answer'}")
