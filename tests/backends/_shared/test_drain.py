"""The drain: reads what nobody wants, whatever happens to it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest

from isandbox_backends._shared import drain as module


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end and not condition():
        time.sleep(0.01)
    return condition()


def pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    return reader, writer


def closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return True
    return False


def test_a_closed_descriptor_does_not_stop_it() -> None:
    """A descriptor that somebody has closed, before or after it was handed over, costs nobody else anything."""
    (bad, bad_end), (good, good_end) = pipe(), pipe()
    for number in (900, 901):  # far from what is opened next
        os.dup2(bad, number)
    os.close(900)
    module.drain([900])
    module.drain([901])
    os.close(901)
    module.drain([good])
    os.write(good_end, b"x" * 60_000)
    os.close(good_end)
    os.close(bad_end)
    os.close(bad)
    assert until(lambda: closed(good))


def test_many_descriptors() -> None:
    """Hundreds at once are read to their ends."""
    pipes = [pipe() for _ in range(400)]
    module.drain([reader for reader, _ in pipes])
    for _, writer in pipes:
        os.write(writer, b"x" * 1000)
        os.close(writer)
    assert until(lambda: all(closed(reader) for reader, _ in pipes))


@pytest.mark.parametrize("place", ["pipe", "selector", "thread"])
def test_without_means_it_closes(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptors or threads: what it was given is closed, nothing is raised, and the next time it tries again."""
    fresh = module._Drain()
    before = set(os.listdir("/proc/self/fd"))
    reader, writer = pipe()

    def fail(*_: object, **__: object) -> None:
        raise (RuntimeError if place == "thread" else OSError)("none left")

    with monkeypatch.context() as patch:
        names = {
            "pipe": (os, "pipe"),
            "selector": (module.selectors, "DefaultSelector"),
            "thread": (threading.Thread, "start"),
        }
        patch.setattr(*names[place], fail)
        fresh.take([reader])
    assert closed(reader)
    os.close(writer)
    assert set(os.listdir("/proc/self/fd")) == before
