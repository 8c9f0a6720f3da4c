"""Time that passes although a clock jumps."""

from __future__ import annotations

import pytest

from isandbox._state.clock import MACHINE, Moment, elapsed

DAY = 86_400.0
BOOT, OTHER = "a" * 32, "b" * 32


@pytest.mark.parametrize(
    ("since", "now", "seconds"),
    [
        pytest.param(Moment(1000, BOOT, 50), Moment(1010, BOOT, 60), 10, id="no jump"),
        pytest.param(Moment(1000, BOOT, 50), Moment(1000 + 400 * DAY, BOOT, 60), 10, id="the wall clock jumps a year ahead"),
        pytest.param(Moment(400 * DAY, BOOT, 50), Moment(1000, BOOT, 60), 10, id="it was in the future"),
        pytest.param(Moment(1000, BOOT, 50), Moment(1500, OTHER, 60), 500, id="across a boot the wall clock tells"),
        pytest.param(
            Moment(400 * DAY, BOOT, 50), Moment(1000, OTHER, 3600), 3600, id="across a boot, from the future: the uptime"
        ),
        pytest.param(Moment(1000, "", 50), Moment(1500, "", 60), 500, id="boots that nobody knows"),
        pytest.param(Moment(1000, "", 50), Moment(900, "", 40), 0, id="nothing is known and it jumped back"),
        pytest.param(Moment(1000, BOOT, 500), Moment(1010, BOOT, 60), 10, id="another time namespace counts otherwise"),
    ],
)
def test_elapsed(since: Moment, now: Moment, seconds: float) -> None:
    """Within a boot only the time since boot counts; across boots the wall clock, and at least the time since this boot."""
    assert elapsed(since, now) == seconds


def test_the_machine_has_both_clocks() -> None:
    """Two looks are in order, within one boot."""
    first, second = MACHINE.now(), MACHINE.now()
    assert (first.boot, len(first.boot)) == (second.boot, 32)
    assert first.up <= second.up
