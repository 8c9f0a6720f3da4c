"""Moments that can be compared although the wall clock jumps: the wall clock, and the time since boot with the boot that it counts from."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from isandbox._state.owner import boot_id


@dataclass(frozen=True, slots=True)
class Moment:
    """``wall``: seconds since 1970, for people and across boots. ``up``: seconds since boot, those of suspension included."""

    wall: float
    boot: str
    up: float


class Clock(Protocol):
    def now(self) -> Moment: ...


class MachineClock:
    def now(self) -> Moment:
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return Moment(max(time.time(), 0.0), boot_id(), time.clock_gettime(clock))


MACHINE = MachineClock()


def elapsed(since: Moment, now: Moment) -> float:
    """Seconds from ``since`` to ``now``, never negative.

    Within one boot exact, whatever the wall clock did. Across boots the wall clock is asked, and believed only as far as it
    agrees with what is sure: that the time since this boot has passed.
    """
    if since.boot and since.boot == now.boot and now.up >= since.up:
        return now.up - since.up
    return max(now.wall - since.wall, now.up if since.boot and since.boot != now.boot else 0.0, 0.0)
