"""From answers to verdicts."""

from __future__ import annotations

import errno

import pytest

from isandbox.testing.containment.judge import REFUSED, judge, shown
from isandbox.testing.containment.records import DETAIL_LIMIT

CONTROLS = {"control": "ok"}
# Errors that say that the call was reached, looked at and only then turned down, or that something was short.
REACHED = (
    "EINVAL",
    "EFAULT",
    "EBADF",
    "ENOMEM",
    "EBUSY",
    "EAGAIN",
    "EEXIST",
    "EIO",
    "ESTALE",
    "ENOSPC",
    "EOPNOTSUPP",
    "ETIMEDOUT",
)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusals(name: str) -> None:
    """Each error of the closed set is a refusal, and has a mechanism."""
    verdict = judge({"a": name}, CONTROLS)
    assert verdict.outcome == "BLOCKED"
    assert verdict.mechanism not in ("", name)


@pytest.mark.parametrize("answer", ["ok", "", "no", "signal 31", "PermissionError", *REACHED])
def test_everything_else_is_a_leak(answer: str) -> None:
    """A success, another error, a signal, an exception's name or silence is no refusal, also among refusals."""
    assert judge({"a": "EPERM", "b": answer}, CONTROLS).outcome == "LEAK"


def test_the_set_is_closed() -> None:
    """What counts as a refusal is what is listed here, each the name of an errno."""
    assert set(errno.errorcode.values()) >= REFUSED
    assert not REFUSED & set(REACHED)


@pytest.mark.parametrize(
    ("answers", "controls"),
    [({"a": "EPERM"}, {}), ({}, CONTROLS), ({"a": "EPERM"}, {"x": "ok", "y": "ENOENT"}), ({"a": "ok"}, {})],
)
def test_without_a_control_nothing_is_proven(answers: dict[str, str], controls: dict[str, str]) -> None:
    """No control, one that failed, or nothing tried: vacuous, also when the attack seems to have worked."""
    assert judge(answers, controls).outcome == "VACUOUS"


def test_what_a_probe_knows_better() -> None:
    """A probe names its own refusals, mechanisms and outcome."""
    verdict = judge({"a": "EBUSY"}, CONTROLS, refused={"EBUSY"}, by={"EBUSY": "mount point"}, stopped="CONTAINED")
    assert (verdict.outcome, verdict.mechanism) == ("CONTAINED", "mount point")
    assert judge({"a": "EPERM"}, CONTROLS, refused={"EBUSY"}).outcome == "LEAK"


def test_a_table_shows_what_can_be_shown() -> None:
    """Control characters and long texts of a sandbox do not reach a terminal."""
    assert shown("a\x1b[2J\nb\u202e") == "a?[2J?b?"
    assert len(shown("x" * 10_000)) == DETAIL_LIMIT
    assert judge({"\x1b]0;": "ok"}, CONTROLS).detail == "?]0;: ok"
