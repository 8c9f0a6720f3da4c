"""The real helper and plans that are none: an error or an end, never a crash, never a hang."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

pytestmark = pytest.mark.native

HEADER = 16


class Fuzzer:
    """The process that tries plans. ``good`` is a whole plan for this machine."""

    def __init__(self, workspace: str) -> None:
        script = Path(__file__).with_name("plan_fuzzer.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), workspace], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        self.out: IO[str] = self.process.stdout
        self.into: IO[str] = self.process.stdin
        self.good = bytes.fromhex(self.out.readline())

    def __call__(self, plan: bytes) -> str:
        self.into.write(plan.hex() + "\n")
        self.into.flush()
        return self.out.readline().strip()

    def close(self) -> None:
        self.into.close()
        self.out.close()
        assert self.process.wait(timeout=30) == 0


@pytest.fixture(scope="module")
def fuzzer(sandbox_tmp: Path) -> Iterator[Fuzzer]:
    with tempfile.TemporaryDirectory(prefix="workspace-") as workspace:
        if os.geteuid() == 0:
            os.chown(workspace, 54321, 54321)
        fuzzer = Fuzzer(workspace)
        yield fuzzer
        fuzzer.close()


def records(plan: bytes) -> list[tuple[int, int, int]]:
    """(offset, tag, length) of every record."""
    found, at = [], HEADER
    while at < len(plan):
        tag, length = struct.unpack_from("<II", plan, at)
        found.append((at, tag, length))
        at += 8 + (length + 7) // 8 * 8
    return found


def sized(plan: bytes) -> bytes:
    """With the header's total as long as the plan is."""
    return plan[:8] + struct.pack("<I", len(plan)) + plan[12:]


def test_the_good_plan_is_good(fuzzer: Fuzzer) -> None:
    """What the other tests change would otherwise start."""
    assert fuzzer(fuzzer.good) == "hello"


def test_truncated_at_every_record(fuzzer: Fuzzer) -> None:
    """Cut at each boundary, and one byte before and after it, with and without a header that admits it."""
    boundaries = [0, 1, HEADER - 1, HEADER, *(at for at, _, _ in records(fuzzer.good)), len(fuzzer.good)]
    cuts = sorted({cut + delta for cut in boundaries for delta in (-1, 0, 1, 8)} & set(range(len(fuzzer.good))))
    for cut in cuts:
        assert fuzzer(fuzzer.good[:cut]) == "error:plan", cut
        if cut >= HEADER and cut % 8 == 0:
            word = fuzzer(sized(fuzzer.good[:cut]))
            assert word.startswith("error:"), (cut, word)


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        pytest.param(0, b"NOPE", id="another file"),
        pytest.param(4, struct.pack("<I", 2), id="version 2"),
        pytest.param(4, struct.pack("<I", 0), id="version 0"),
        pytest.param(8, struct.pack("<I", 0), id="no length"),
        pytest.param(8, struct.pack("<I", 0xFFFFFFFF), id="four gigabytes"),
        pytest.param(16, struct.pack("<I", 0), id="tag 0"),
        pytest.param(16, struct.pack("<I", 99), id="an unknown tag"),
        pytest.param(16, struct.pack("<I", 0xFFFFFFFF), id="tag -1"),
        pytest.param(20, struct.pack("<I", 0xFFFFFFFF), id="a record of four gigabytes"),
        pytest.param(20, struct.pack("<I", 0xFFFFFFF8), id="a record whose end wraps"),
        pytest.param(20, struct.pack("<I", 0), id="a record of nothing"),
        pytest.param(24, struct.pack("<Q", 0x7E020000 & ~0x20000), id="no mount namespace"),
        pytest.param(24, struct.pack("<Q", 0x7E020000 & ~0x10000000), id="no user namespace"),
        pytest.param(24, struct.pack("<Q", 0x7E020000 & ~0x20000000), id="no pid namespace"),
        pytest.param(24, struct.pack("<Q", 0x7E020100), id="shared memory"),
        pytest.param(24, struct.pack("<Q", 0), id="no namespace at all"),
    ],
)
def test_a_header_or_record_that_is_wrong(fuzzer: Fuzzer, offset: int, value: bytes) -> None:
    """Version, length, tag and namespaces are checked before anything is done."""
    plan = fuzzer.good[:offset] + value + fuzzer.good[offset + len(value) :]
    assert fuzzer(plan) == "error:plan"


@pytest.mark.parametrize("tag", range(1, 16))
def test_each_record_with_each_wrong_length(fuzzer: Fuzzer, tag: int) -> None:
    """A record that is empty, cut short, unterminated or too long is an error, whatever its kind."""
    known = [record for record in records(fuzzer.good) if record[1] == tag]
    at, _, length = known[0] if known else (len(fuzzer.good), tag, 40)
    for size in {0, 1, 4, 7, max(0, length - 1), length + 1, length + 8, 4096}:
        payload = (fuzzer.good[at + 8 : at + 8 + length] + b"\x01" * 4096)[:size]
        if size == length:
            continue
        head = struct.pack("<II", tag, size) + payload + bytes(-size % 8)
        after = at + 8 + (length + 7) // 8 * 8
        word = fuzzer(sized(fuzzer.good[:at] + head + fuzzer.good[after:]))
        assert word == "hello" or word.startswith("error:"), (size, word)
        if size < min(length, 8):
            assert word == "error:plan", size


@pytest.mark.parametrize("tag", [1, 2, 12, 14])
def test_no_layer_can_be_left_out(fuzzer: Fuzzer, tag: int) -> None:
    """A plan without its mode, ids, Landlock record or filter starts nothing."""
    plan, good = fuzzer.good[:HEADER], fuzzer.good
    for at, kind, length in records(good):
        if kind != tag:
            plan += good[at : at + 8 + (length + 7) // 8 * 8]
    assert fuzzer(sized(plan)) == "error:plan"


@pytest.mark.parametrize(
    "text", ["", " ", "0", "0 ", "0 1", "0 1 ", "0 1 x", "x 1 1", "0  1 1", "0 1 1 ", "0 1 1\n2 2 1", "-1 1 1"]
)
@pytest.mark.parametrize("which", [0, 1])
def test_ids_that_are_no_map(fuzzer: Fuzzer, text: str, which: int) -> None:
    """Three numbers and nothing else: a text that ends sooner would be read past its end."""
    ((at, _, length),) = (record for record in records(fuzzer.good) if record[1] == 2)
    maps = fuzzer.good[at + 8 : at + 8 + length].split(b"\0")[:2]
    maps[which] = text.encode()
    payload = b"\0".join(maps) + b"\0"
    record = struct.pack("<II", 2, len(payload)) + payload + b"7" * (-len(payload) % 8)
    plan = fuzzer.good[:at] + fuzzer.good[at + 8 + (length + 7) // 8 * 8 :] + record
    assert fuzzer(sized(plan)) == "error:plan"


def test_random_bit_flips(fuzzer: Fuzzer) -> None:
    """Any bit but those of the filter, which is a program of its own: an error, or a sandbox, but no crash and no hang."""
    chance = random.Random(20_260_101)  # noqa: S311 - the same every time
    spans = [(at + 8, at + 8 + length) for at, tag, length in records(fuzzer.good) if tag == 14]
    places = [at for at in range(len(fuzzer.good)) if not any(low <= at < high for low, high in spans)]
    seen = set()
    for _ in range(200):
        plan = bytearray(fuzzer.good)
        flips = [(chance.choice(places), chance.randrange(8)) for _ in range(chance.choice((1, 1, 2, 8)))]
        for at, bit in flips:
            plan[at] ^= 1 << bit
        word = fuzzer(bytes(plan))
        assert word in {"hello", "end"} or word.startswith("error:"), (flips, word)
        seen.add(word)
    assert "error:plan" in seen
