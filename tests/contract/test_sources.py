"""Every rule, published check and report that the contract answers is held by a promise that exists."""

from __future__ import annotations

import pytest

from isandbox.testing import DetachedContract, SandboxContract
from isandbox.testing.contract import GROUPS, promises
from isandbox.testing.contract.sources import INSPECT_CHECKS, REPORTS, RULES

NAMES = [name for group in GROUPS for name, _ in promises(group)]


@pytest.mark.parametrize("table", [RULES, INSPECT_CHECKS, REPORTS], ids=["rules", "checks", "reports"])
def test_what_is_named_is_a_promise(table: dict[str, tuple[str, ...]]) -> None:
    """Each entry names at least one promise, and only promises that are there."""
    missing = {source: [name for name in names if name not in NAMES] for source, names in table.items()}
    assert {source: names for source, names in missing.items() if names} == {}
    assert all(table.values())


def test_all_checks_and_reports_are_there() -> None:
    """44 checks of inspect_ai, and the 24 reports that are about what this contract holds."""
    assert len(INSPECT_CHECKS) == 44
    numbers = [int(report.partition(".")[0]) for report in REPORTS]
    assert numbers == [*range(1, 15), *range(17, 25), 29, 30]


def test_a_promise_is_one_test() -> None:
    """No two groups have a promise of the same name, each says its sentence, and there are at least 150."""
    assert len(set(NAMES)) == len(NAMES) >= 150
    assert all(hasattr(SandboxContract, f"test_{name}") or hasattr(DetachedContract, f"test_{name}") for name in NAMES)
    assert [name for group in GROUPS for name, sentence in promises(group) if not sentence.endswith(".")] == []


def test_the_twelve_groups_are_there() -> None:
    """The contract has the groups by the names under which backends speak of them."""
    groups = {group.__name__.removesuffix("Promises") for group in GROUPS}
    assert groups >= {"Exec", "Output", "Stdin", "Fault", "File", "HostileName", "Quota", "Lifecycle"}
    assert groups >= {"Concurrency", "Cancellation", "Sync", "Error"}
