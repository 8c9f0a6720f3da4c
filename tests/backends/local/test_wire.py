"""The Python helper runs isolated from the package and has the numbers of the wire a second time: they are the same."""

from __future__ import annotations

import pytest

from isandbox_backends._shared import plan, protocol
from isandbox_backends.local.py_helper import wire


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (protocol.FrameType, wire.Frame),
        (protocol.StartStage, wire.Stage),
        (protocol.StartFlag, wire.Flag),
        (protocol.Farewell, wire.Farewell),
        (protocol.Question, wire.Question),
    ],
)
def test_numbers_are_the_same(ours: type, theirs: type) -> None:
    """Every number of the wire means the same on both sides."""
    assert {member.name: int(member) for member in theirs} == {  # type: ignore[attr-defined]
        member.name: int(member)
        for member in ours  # type: ignore[attr-defined]
    }


def test_versions_are_the_same() -> None:
    """Protocol version, features and faults agree."""
    assert (wire.VERSION, wire.FEATURE_FDS) == (protocol.PROTOCOL_VERSION, protocol.FEATURE_FDS)
    assert {fault.name.lower(): int(fault) for fault in wire.Fault if fault} == protocol.FAULT_NUMBERS
    assert plan.PLAN_VERSION == 1
