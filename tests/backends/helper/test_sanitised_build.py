"""The sanitised build of the helper finds what it is there for: the same sandbox with one fault put into a copy of a source."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from isandbox import ExecTimeoutError, SandboxError
from isandbox.sync import create_sandbox
from isandbox_backends._shared import start

pytestmark = pytest.mark.native

HELPER = Path(__file__).parents[3] / "backends" / "helper"
FAULTS = [
    pytest.param("base.c", ("int i = 23;", "int i = 24;"), "index 24 out of bounds", id="one past an array, by its index"),
    pytest.param(
        "fileops.c", ("u8 out[64 + 256 + PATH_MAX];", "u8 out[64];"), "stack-buffer-overflow", id="past a buffer on a keeper's stack"
    ),
    pytest.param(
        "command.c", ("c->request_bytes = vectors + strings;", "c->request_bytes = vectors + strings - 1;"), "use-after-poison",
        id="one past mapped pages",
    ),
    pytest.param(
        "procs.c", ("read_file (path, text, sizeof text) <= 0)\n    return 0;\n  p->pid",
        "read_file (path, text, sizeof text + 2) <= 0)\n    return 0;\n  p->pid"), "stack-buffer-overflow",
        id="one more than fits, read by the kernel",
    ),
    pytest.param(
        "loop.c", ("static struct pollfd few_polls[FEW];", "static struct pollfd few_polls[1];"), "global-buffer-overflow", id="past a table of the server",
    ),
    pytest.param("plan.c", ("plan.landlock = (const u64 *) r->data;", "plan.landlock = (const u64 *) (r->data + 4);"),
                 "misaligned address", id="a misaligned record"),
]  # fmt: skip


def use() -> None:
    """Commands, a long request, a file's entry, a look at all processes."""
    with create_sandbox("seccomp") as sandbox:
        assert sandbox.exec(["true"]).ok
        assert sandbox.exec(["true", *("x" * 1000 for _ in range(12))]).ok
        sandbox.files.write("a-name-that-is-longer-than-a-small-buffer-and-still-no-path", "x")
        assert len(sandbox.files.list(".")) == 1
        with contextlib.suppress(ExecTimeoutError):
            sandbox.exec(["sleep", "60"], timeout=0.01)


def test_a_helper_without_fault_reports_nothing(sanitised: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the tests below: the same calls, and not a word."""
    monkeypatch.setattr(start, "_native", sanitised.as_helper)
    use()
    assert sanitised.report() == ""


@pytest.mark.parametrize(("source", "fault", "word"), FAULTS)
def test_a_fault_is_reported(
    sanitise: Any, source: str, fault: tuple[str, str], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wrong number in a copy of a source, and the sandbox is lost with a report of where."""
    right, wrong = fault
    text = (HELPER / source).read_text()
    assert text.count(right) == 1
    broken = sanitise({source: text.replace(right, wrong)})
    monkeypatch.setattr(start, "_native", broken.as_helper)
    with contextlib.suppress(SandboxError, OSError, AssertionError):
        use()
    assert word in broken.report()
