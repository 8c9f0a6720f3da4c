"""Quotas: binary sizes, whole numbers, and what counts as asked for."""

from __future__ import annotations

import math
import pickle
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import ConfigurationError, Quotas
from isandbox.policy import parse_size

SIZES = ["memory", "disk", "file_size", "output"]
NUMBERS = ["cpus", "cpu_time"]
WHOLE = ["pids", "open_files"]
EVERY = [*SIZES, *NUMBERS, *WHOLE]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1), ("4096", 4096), ("512MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("1.5GiB", 3 << 29), (" 2 KiB ", 2048),
        ("0.5KiB", 512), ("1TiB", 1 << 40), ("7 B", 7), (4096, 4096), ((1 << 63) - 1, (1 << 63) - 1),
        ("9223372036854775807", (1 << 63) - 1),
    ],
)  # fmt: skip
def test_sizes(text: int | str, size: int) -> None:
    """A number of bytes, or a text with a binary unit."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "value",
    [
        "512MB", "1 GB", "1kb", "10M", "1G", "", " ", "MiB", "-1MiB", "+1MiB", "1e3", "0x10", "1,5 GiB", "1.5.5 GiB", "1 MiB x",
        "1_000", "١٢", "1.1", "0.3 KiB", "0", "0MiB", 0, -1, 1.5, 1024.0, True, False, math.nan, b"1", None, [1],
        1 << 63, 10**400, 10**5000, "9" * 5000, "9" * 400 + ".0 TiB", "9007199254740993.0 TiB", "8388608TiB",
    ],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:12] if not isinstance(value, int) else value.bit_length()}",
)  # fmt: skip
def test_what_is_no_size(value: Any) -> None:
    """Everything else is a ConfigurationError that names the option and stays short."""
    with pytest.raises(ConfigurationError, match=r"^quotas\.memory:") as caught:
        parse_size(value, name="quotas.memory")
    assert len(str(caught.value)) < 6000


def test_a_decimal_unit_gets_the_binary_ones_named() -> None:
    """Nobody has to guess which megabyte was meant."""
    with pytest.raises(ConfigurationError, match="KiB, MiB, GiB, TiB"):
        Quotas(memory="512MB")


@given(st.integers(1, (1 << 63) - 1))
def test_a_number_of_bytes_is_exact(size: int) -> None:
    """No size is rounded on its way through a text."""
    assert parse_size(size) == parse_size(str(size)) == size


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    "value",
    [0, -1, True, False, math.nan, math.inf, "0", "many", [], b"1", 10**400, -(10**5000)],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:12] if not isinstance(value, int) else value.bit_length()}",
)
def test_no_quota_takes_nonsense(name: str, value: Any) -> None:
    """Zero, negative, a bool, not finite, absurd: refused with the quota's name."""
    with pytest.raises(ConfigurationError, match=rf"^quotas.{name}:"):
        Quotas(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("cpus", 4097), ("cpu_time", 31_536_001), ("pids", 4_194_305), ("open_files", 1_048_577), ("pids", 1.0), ("cpus", "2")],
)
def test_each_has_a_largest_value(name: str, value: Any) -> None:
    """More than any machine could give is a mistake, and said to be one."""
    with pytest.raises(ConfigurationError, match=name):
        Quotas(**{name: value})


def test_defaults_are_not_asked_for() -> None:
    """A default is applied where it can be; the same number written by the caller must be enforced."""
    assert Quotas().asked() == frozenset()
    assert Quotas(pids=256).asked() == {"pids"}
    assert Quotas(open_files=1024).asked() == {"open_files"}
    assert Quotas(pids=None, open_files=None).asked() == frozenset()
    assert Quotas(**dict.fromkeys(SIZES, "1MiB"), cpus=1, cpu_time=1, pids=1, open_files=1).asked() == set(EVERY)


def test_what_was_asked_survives_copy_and_pickle() -> None:
    """Whether a quota was asked for travels with it."""
    for quotas in (Quotas(), Quotas(pids=256, memory="1MiB")):
        assert pickle.loads(pickle.dumps(quotas)).asked() == quotas.asked()  # noqa: S301
        assert replace(quotas).asked() == quotas.asked()


def test_sizes_are_bytes_after_construction() -> None:
    """Whatever was written, the record holds bytes."""
    quotas = Quotas(memory="1.5 GiB", output="10")
    assert (quotas.memory, quotas.size("memory"), quotas.size("output"), quotas.size("disk")) == (3 << 29, 3 << 29, 10, None)


def test_the_table_above_is_complete() -> None:
    """A quota that is added is added to these tests."""
    assert {f.name for f in fields(Quotas)} == set(EVERY)
