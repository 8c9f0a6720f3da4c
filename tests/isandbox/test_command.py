"""From what a caller writes to a `ProcessSpec`: everything that cannot run is refused before anything is started."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

from isandbox import ConfigurationError, ProcessSpec
from isandbox.command import ARG_ELEMENT_LIMIT, ARG_TOTAL_LIMIT, SCRIPT_LIMIT, check_command, check_input, make_spec

K128 = 128 * 1024


@pytest.mark.parametrize(
    ("command", "word"),
    [
        pytest.param("", "empty", id="empty text"),
        pytest.param("  \n\t", "empty", id="white space"),
        pytest.param([], "empty", id="no argv"),
        pytest.param([""], "empty", id="empty program"),
        pytest.param("a\0b", "NUL", id="NUL in a script"),
        pytest.param(["echo", "a\0b"], "element 1", id="NUL in an element"),
        pytest.param(b"echo", "bytes", id="bytes"),
        pytest.param(bytearray(b"echo"), "bytearray", id="bytearray"),
        pytest.param(["echo", b"x"], "element 1", id="a bytes element"),
        pytest.param(["echo", 1], "int", id="a number in argv"),
        pytest.param(["echo", None], "NoneType", id="None in argv"),
        pytest.param(None, "NoneType", id="None"),
        pytest.param(5, "int", id="a number"),
        pytest.param({"echo"}, "set", id="a set has no order"),
        pytest.param(iter(["echo"]), "iterator", id="an iterator is used up by looking"),
        pytest.param(["echo", "x" * K128], "131072", id="an element of 128 KiB"),
        pytest.param(["x" * (K128 - 2)] * 9, "1048576", id="1 MiB in all"),
        pytest.param(["a"] + [""] * ARG_TOTAL_LIMIT, "arguments", id="a million empty elements"),
        pytest.param("x" * (SCRIPT_LIMIT + 1), "1048576", id="a script over 1 MiB"),
        pytest.param("é" * (SCRIPT_LIMIT // 2 + 1), "1048576", id="bytes count, not characters"),
        pytest.param("echo \ud800", "surrogate", id="half a pair in a script"),
        pytest.param(["echo", "\ud800"], "element 1", id="half a pair in argv"),
    ],
)
def test_what_cannot_run_is_a_configuration_error(command: Any, word: str) -> None:
    """A command that cannot be passed is refused with a message that says what is wrong with it."""
    with pytest.raises(ConfigurationError, match=word):
        make_spec(command)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["x", "y" * (ARG_ELEMENT_LIMIT - 1)], id="the longest element"),
        pytest.param(["z" * (K128 - 1)] * 8, id="the most in all"),
        pytest.param(["echo", ""], id="an empty argument is one"),
        pytest.param(("true",), id="a tuple"),
        pytest.param(["echo", "\udcff"], id="a byte that is no text"),
    ],
)
def test_the_largest_commands_pass(command: Any) -> None:
    """At the limit is not over it."""
    assert check_command(command) == (tuple(command), None)


def test_a_script_of_one_mebibyte_passes() -> None:
    """The promise is up to 1 MiB, inclusive."""
    script = "#" * SCRIPT_LIMIT
    assert check_command(script) == ((), script)


@pytest.mark.parametrize(
    "timeout",
    [0, -1, -0.0, math.nan, math.inf, -math.inf, True, False, "5", b"5", [], 4_200_001, 1e300, 10**400, 10**5000, -(10**5000)],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:12] if not isinstance(value, int) else value.bit_length()}",
)
def test_a_timeout_that_is_none(timeout: Any) -> None:
    """Zero, negative, not finite, a bool, a text and more than the wire carries are each refused by name."""
    with pytest.raises(ConfigurationError, match=r"^timeout:") as caught:
        make_spec("true", timeout=timeout)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("timeout", [None, 1, 0.001, 4_200_000])
def test_a_timeout(timeout: float | None) -> None:
    """Seconds of any kind are kept as they are; None is the sandbox's life."""
    assert make_spec("true", timeout=timeout).timeout == timeout


@pytest.mark.parametrize("value", [-1, 1.5, "1", True, None, math.nan, -(10**5000)], ids=lambda v: type(v).__name__)
def test_max_output_that_is_none(value: Any) -> None:
    """max_output is a whole number of bytes, 0 or more."""
    with pytest.raises(ConfigurationError, match=r"^max_output:"):
        make_spec("true", max_output=value)


@pytest.mark.parametrize("value", [0, 1, 1 << 70])
def test_max_output(value: int) -> None:
    """0 keeps nothing; there is no upper bound."""
    assert make_spec("true", max_output=value).max_output == value


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"cwd": ""}, "cwd"),
        ({"cwd": "a\0"}, "NUL"),
        ({"cwd": "x" * 5000}, "5000 bytes"),
        ({"cwd": b"x"}, "bytes"),
        ({"cwd": 3}, "int"),
        ({"cwd": "\ud800"}, "surrogate"),
        ({"stderr": "stdout"}, "merge"),
        ({"stderr": None}, "merge"),
        ({"input": 5}, "int"),
        ({"input": ["x"]}, "list"),
        ({"input": "\ud800"}, "surrogate"),
        ({"input": "x", "stdin": "pipe"}, "exclude"),
        ({"env": {"A=B": "x"}}, "A=B"),
        ({"env": ["A"]}, "mapping"),
    ],
)
def test_options_that_are_not_valid(options: dict[str, Any], word: str) -> None:
    """Every option is checked once, here, for every backend."""
    with pytest.raises(ConfigurationError, match=word):
        make_spec("true", **options)


@pytest.mark.parametrize(
    ("value", "raw"),
    [(None, None), ("", b""), ("é", "é".encode()), (b"\0\xff", b"\0\xff"), (bytearray(b"a"), b"a"), (memoryview(b"a"), b"a")],
)
def test_input_becomes_bytes(value: Any, raw: bytes | None) -> None:
    """A text is UTF-8, anything of bytes is bytes, and no input is not an empty one."""
    assert check_input(value) == raw


def test_a_spec_hides_environment_and_input() -> None:
    """What may hold a secret is not in the repr, which ends in logs and tracebacks."""
    spec = make_spec(["tool"], env={"TOKEN": "s3cret"}, input="pa55word")
    assert "s3cret" not in repr(spec)
    assert "pa55word" not in repr(spec)


def test_a_spec_is_frozen_and_its_environment_too() -> None:
    """What was checked cannot be changed afterwards."""
    given = {"A": "1"}
    spec = make_spec("true", env=given)
    given["A"] = "2"
    assert spec.env["A"] == "1"
    with pytest.raises(TypeError):
        spec.env["A"] = "3"  # type: ignore[index]
    with pytest.raises(AttributeError):
        spec.cwd = "/"  # type: ignore[misc]


def test_a_default_spec_pickles() -> None:
    """A spec made of defaults is plain data."""
    spec = ProcessSpec(argv=("a",))
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301
