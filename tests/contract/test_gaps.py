"""The closed table of permitted gaps: it is the only way past a promise, and it is strict."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from isandbox.testing import Gap, SandboxContract
from isandbox.testing.contract import GAPS, GROUPS, promises
from isandbox.testing.contract import gaps as table

ROOT = Path(__file__).resolve().parents[2]
SUITE = sorted((ROOT / "isandbox/isandbox/testing/contract").glob("*.py"))
TESTS = sorted(Path(__file__).parent.glob("test_*.py"))
NAMES = {name for group in GROUPS for name, _ in promises(group)}


def test_every_row_is_a_promise_with_a_decision() -> None:
    """A row names a promise that exists, once for each backend, and a decision record that is in the tree."""
    assert {gap.promise for gap in GAPS} <= NAMES
    assert all((ROOT / "docs/decisions" / gap.decision).is_file() for gap in GAPS)
    assert len({(gap.backend, gap.promise) for gap in GAPS}) == len(GAPS)
    assert table.NEVER_A_GAP <= NAMES


@pytest.mark.parametrize("path", [*SUITE, *TESTS], ids=lambda path: path.name)
def test_nothing_is_skipped_or_expected_to_fail_beside_the_table(path: Path) -> None:
    """No promise and no test of a backend skips or expects to fail, but through two lines of code: the table's, and that for a
    verb which the record does not claim, whose refusal is a promise of its own.
    """
    if path == Path(__file__):
        return
    found = [
        node.lineno for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) in {"skip", "skipif", "xfail", "importorskip", "skipTest"}
    ]  # fmt: skip
    assert len(found) == (2 if path.name == "base.py" else 0), found


def test_what_is_never_waived_cannot_be_a_row() -> None:
    """A row for a promise that nothing excuses, without a reason, or for no promise at all, is an error when it is written."""
    with pytest.raises(ValueError, match="never"):
        Gap("moon", "bytes_are_exact", "the wire is text", "0099.md")
    for reason, decision in (("", "0099.md"), ("because", "")):
        with pytest.raises(ValueError, match="reason and a decision"):
            Gap("moon", "a_directory_moves_with_what_is_in_it", reason, decision)
    with pytest.raises(TypeError, match="no_such_promise"):
        type("Test", (SandboxContract,), {"gaps": (Gap("moon", "no_such_promise", "because", "0099.md"),)})


MODULE = """
from isandbox.testing import FakeSandbox, Gap
from isandbox.testing.contract.files import FilePromises

class Broken(FakeSandbox):
    async def rename(self, path, target):
        raise OSError("the wire cannot rename")

class TestGap(FilePromises):
    gaps = tuple(Gap("fake", name, "the wire cannot", "0099.md") for name in NAMES)

    @classmethod
    def create(cls, **options):
        return Broken.create(**options)
"""


@pytest.mark.parametrize(
    ("names", "code", "says"),
    [
        (
            ["a_directory_moves_with_what_is_in_it", "rename_replaces_a_file", "rename_refuses_what_it_would_destroy"],
            0,
            "3 xfailed",
        ),
        (["a_directory_moves_with_what_is_in_it", "rename_replaces_a_file"], 1, "1 failed"),
        (["a_directory_moves_with_what_is_in_it", "append_makes_a_file"], 1, "XPASS(strict)"),
    ],
)
def test_a_row_is_a_strict_expected_failure(tmp_path: Path, names: list[str], code: int, says: str) -> None:
    """A row lets its promise fail, no other one, and a row whose promise is kept after all is itself a failure."""
    (tmp_path / "test_gap.py").write_text(MODULE.replace("NAMES", repr(names)))
    options = ["-q", "-ra", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=class",
               "-o", "asyncio_default_test_loop_scope=class"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_gap.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    assert says in done.stdout
