"""Environment: what every program reads back as it was given, and never in a message."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import ConfigurationError
from isandbox.policy import check_env

SECRET = "hunter2-secret"


@pytest.mark.parametrize(
    "name",
    ["", "A=B", "=", "A\0", "A\nB", "A\rB", " A", "A ", "\tA", "A\n", "\u00a0A", "\ud800", 5, None, b"A"],
    ids=ascii,
)
def test_names_that_no_program_reads_back(name: Any) -> None:
    """Empty, '=', NUL, newline and outer white space are refused, and the value is not in the message."""
    with pytest.raises(ConfigurationError, match=r"^env:") as caught:
        check_env({name: SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("value", [f"{SECRET}\0", f"{SECRET}\ud800", SECRET.encode(), SECRET * 20_000, [SECRET]])
def test_values_that_cannot_be_passed(value: Any) -> None:
    """The message names the variable; neither it nor its traceback nor its context shows the value."""
    with pytest.raises(ConfigurationError, match="TOKEN") as caught:
        check_env({"TOKEN": value})
    error: BaseException | None = caught.value
    shown = "".join(traceback.format_exception(caught.value))
    while error is not None:
        shown += repr(error) + str(error)
        error = error.__context__
    assert SECRET not in shown


@pytest.mark.parametrize("env", [["A"], "A=1", 5, {("A", "1")}])
def test_an_environment_is_a_mapping(env: Any) -> None:
    """Anything else is said to be the wrong type, not an AttributeError."""
    with pytest.raises(ConfigurationError, match="mapping"):
        check_env(env)


def test_the_kernels_limits() -> None:
    """One string of 128 KiB, with its NUL, is the longest; 1 MiB in all."""
    assert check_env({"A": "x" * (131_072 - 3)})
    with pytest.raises(ConfigurationError, match="A has 131073 bytes"):
        check_env({"A": "x" * (131_072 - 2)})
    with pytest.raises(ConfigurationError, match="1048576"):
        check_env({f"V{number}": "x" * 100_000 for number in range(11)})


@given(st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True), st.text().filter(lambda v: "\0" not in v)))
def test_everything_else_is_kept(env: dict[str, str]) -> None:
    """A checked environment is the one that was given, and cannot be changed."""
    checked = check_env(env)
    assert dict(checked) == env
    with pytest.raises(TypeError):
        checked["X"] = "1"  # type: ignore[index]
