"""The frozen policy, and the ladder of isolation."""

from __future__ import annotations

import copy
import pickle
from typing import Any, get_args

import pytest

from isandbox import Capabilities, ConfigurationError, Enforcement, Mount, Policy, Quotas, Workspace
from isandbox.policy import Isolation, as_mounts, as_workspace, meets

LADDER: list[Any] = ["none", "os", "container", "userkernel", "vm"]


@pytest.mark.parametrize("minimum", LADDER)
@pytest.mark.parametrize("isolation", LADDER)
def test_the_ladder(isolation: Any, minimum: Any) -> None:
    """Each rung meets itself and what is below it."""
    assert meets(isolation, minimum) == (LADDER.index(isolation) >= LADDER.index(minimum))


def test_unknown_meets_nothing_but_none() -> None:
    """A remote of unverified strength fails every minimum that asks for something."""
    assert [minimum for minimum in LADDER if meets("unknown", minimum)] == ["none"]


@pytest.mark.parametrize("minimum", ["unknown", "", "VM", "kernel", None, 3])
def test_a_minimum_is_a_rung(minimum: Any) -> None:
    """Anything else lists the rungs."""
    with pytest.raises(ConfigurationError, match="none, os, container, userkernel, vm"):
        meets("vm", minimum)


def test_the_ladder_is_complete() -> None:
    """A level that is added has a rung."""
    assert set(get_args(Isolation)) == {*LADDER, "unknown"}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"mounts": [Mount("/usr", "/a"), Mount("/etc", "/a", "rw")]}, "two mounts at /a"),
        ({"mounts": ["/usr:/a"]}, "Mount records"),
        ({"network": "example.org"}, "list of hosts"),
        ({"env": {"A\n": "x"}}, "env"),
        ({"quotas": {"memory": 1}}, "Quotas record"),
        ({"quotas": None}, "Quotas record"),
        ({"workspace": "/tmp/x"}, "Workspace record"),
    ],
)
def test_policies_that_are_not_valid(options: dict[str, Any], word: str) -> None:
    """A policy checks itself."""
    with pytest.raises(ConfigurationError, match=word):
        Policy(**options)


def test_a_policy_holds_nothing_that_can_be_changed() -> None:
    """Lists and dicts that a caller keeps are copied."""
    env, mounts, network, waive = {"A": "1"}, [Mount("/usr", "/a")], ["x.org"], {"disk"}
    policy = Policy(env=env, mounts=mounts, network=network, waive=waive)  # type: ignore[arg-type]
    env["A"], waive = "2", waive | {"landlock"}
    mounts.clear()
    network.append("y.org")
    assert (dict(policy.env), policy.network, policy.waive) == ({"A": "1"}, ("x.org",), frozenset({"disk"}))
    assert policy.mounts == (Mount("/usr", "/a"),)


def test_a_policy_hides_its_environment() -> None:
    """Values may be secrets: they are not in the repr."""
    assert "s3cret" not in repr(Policy(env={"TOKEN": "s3cret"}))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
@pytest.mark.parametrize(
    "value",
    [
        Policy(workspace=Workspace("/w", "ro"), env={"A": "1"}, network=(), quotas=Quotas(pids=3), waive=frozenset({"disk"})),
        Capabilities("os", quotas={"pids": Enforcement("kernel")}, policies={}, weaknesses=("one",)),
        Mount("/usr", "/a", "rw"),
        Workspace("/w", "copy", ("a",)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_records_copy_and_pickle(value: Any, duplicate: Any) -> None:
    """Records are plain data: they travel to another process and come back equal."""
    assert duplicate(value) == value


def test_shorthands() -> None:
    """A path is a read-write workspace; one mount is not a list of mounts."""
    assert as_workspace("/w") == Workspace("/w", "rw")
    assert as_workspace(None) is None
    for value in ("/a", Mount("/usr", "/a")):
        with pytest.raises(ConfigurationError, match="list of Mount"):
            as_mounts(value)  # type: ignore[arg-type]


def test_a_name_that_is_not_in_the_record_is_unsupported() -> None:
    """A backend that says nothing about a quota does not enforce it."""
    capabilities = Capabilities("none")
    assert capabilities.quota("memory").kind == capabilities.policy("mounts").kind == "unsupported"
