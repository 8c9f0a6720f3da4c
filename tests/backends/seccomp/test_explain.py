"""Failures of a start in words that say what to do."""

from __future__ import annotations

from errno import EACCES, EINVAL, EPERM

import pytest

from isandbox import BackendUnavailableError, SandboxError
from isandbox_backends._shared.client import HelperStartError
from isandbox_backends.seccomp.explain import explain


@pytest.mark.parametrize(
    ("stage", "number", "advice"),
    [
        ("ids", EINVAL, "run it as an ordinary user"),
        ("ids", EPERM, "ids='single'"),
        ("map ids", EPERM, "run it as an ordinary user"),
        ("idmap", EACCES, "run it as an ordinary user"),
        ("clone mount", EPERM, "CAP_SYS_ADMIN"),
        ("mount proc", EPERM, "systempaths=unconfined"),
        ("create namespaces", EPERM, "apparmor_restrict_unprivileged_userns"),
    ],
)
def test_what_is_missing_is_named(stage: str, number: int, advice: str) -> None:
    """A mechanism that the machine does not give us makes the backend unavailable, with a way out and the helper's own words."""
    error = explain(HelperStartError(number, stage, "thing"))
    assert isinstance(error, BackendUnavailableError)
    assert advice in str(error)
    assert f"{stage} thing" in str(error)


def test_what_is_not_known_is_told_as_it_is() -> None:
    """Any other failure is no statement about the machine."""
    error = explain(HelperStartError(EINVAL, "map ids", "x"))
    assert type(error) is SandboxError
    assert "map ids x: Invalid argument" in str(error)
