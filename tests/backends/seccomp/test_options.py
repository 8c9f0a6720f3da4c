"""The options of the backend's own."""

from __future__ import annotations

import pytest

from isandbox.errors import ConfigurationError, UnsupportedError
from isandbox.policy import Policy
from isandbox.sync import create_sandbox
from isandbox_backends._shared.helper import machine
from isandbox_backends._shared.plan import Seccomp
from isandbox_backends.seccomp.backend import compile_plan
from isandbox_backends.seccomp.filter import compile_filter
from isandbox_backends.seccomp.options import SeccompOptions
from isandbox_backends.seccomp.profiles import PROFILE_NAMES, ProfileName

PROFILE = pytest.mark.parametrize("profile", PROFILE_NAMES)


def test_the_default_is_default() -> None:
    """Nobody gets more or less than the reviewed default without asking."""
    assert SeccompOptions() == SeccompOptions(cgroup="auto", profile="default")


@pytest.mark.parametrize("value", ["none", "", "Strict", None, 1, True])
def test_unknown_profiles_are_refused(value: object) -> None:
    """A profile that does not exist is refused, with the names of those that do."""
    with pytest.raises(ConfigurationError, match="'default', 'debug', 'strict'"):
        SeccompOptions(profile=value)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="profile"):
        create_sandbox("seccomp", profile=value)


def test_the_options_of_all_native_backends_are_checked_too() -> None:
    """The record that extends another keeps its checks."""
    with pytest.raises(ConfigurationError, match="cgroup"):
        SeccompOptions(cgroup="sometimes", profile="strict")  # type: ignore[arg-type]


def test_local_has_no_profiles() -> None:
    """A backend without a filter refuses the option instead of leaving it out."""
    with pytest.raises((ConfigurationError, UnsupportedError), match="profile"):
        create_sandbox("local", profile="strict")


@PROFILE
def test_the_plan_holds_the_profile(profile: ProfileName) -> None:
    """What is asked for is what the helper is told to load."""
    plan = compile_plan(Policy(), None, [], None, profile=profile)
    assert [record for record in plan if isinstance(record, Seccomp)] == [Seccomp(compile_filter(machine(), profile=profile))]
    assert len({compile_filter(machine(), profile=name) for name in PROFILE_NAMES}) == len(PROFILE_NAMES)


@pytest.mark.native
def test_the_profile_is_told() -> None:
    """`info.layers` says which profile is in force, and the other layers are the same, and told the same, with each."""
    told = {}
    for profile in PROFILE_NAMES:
        with create_sandbox("seccomp", profile=profile) as sandbox:
            told[profile] = dict(sandbox.info.layers)
            assert told[profile].pop("seccomp") == f"enforced (profile {profile})"
    assert told["debug"] == told["strict"] == told["default"]
