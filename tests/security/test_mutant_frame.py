"""The tools of the mutants: each alters what it says, and only that."""

from __future__ import annotations

import importlib
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

from isandbox_backends._shared.helper import machine
from isandbox_backends._shared.plan import ModeRecord, Seccomp, Sysctl
from isandbox_backends.seccomp import rules
from isandbox_backends.seccomp.filter import compile_filter
from isandbox_backends.seccomp.syscalls import ARCHES

_DIRECTORY = Path(__file__).parent / "mutants"
package = ModuleType("isandbox_mutants")
package.__path__ = [str(_DIRECTORY)]
sys.modules.setdefault("isandbox_mutants", package)
frame, build, calls = (importlib.import_module(f"isandbox_mutants.{name}") for name in ("frame", "build", "calls"))
ARCH = ARCHES[machine()]
ALLOW = 0x7FFF0000


def answer(bpf: ModuleType, edit: object, name: str, *args: int) -> int:
    (record,) = edit([Seccomp(compile_filter(ARCH.name))])  # type: ignore[operator]
    code = list(struct.iter_unpack("<HBBI", record.program))
    action, _ = bpf.run(code, ARCH.numbers[name], ARCH.audit, args)
    return int(action)


@pytest.mark.parametrize("names", [*calls.FAMILIES.values(), *calls.CHECKED.values()], ids=lambda names: names[0])
def test_a_family_that_passes_is_allowed_and_nothing_else(bpf: ModuleType, names: tuple[str, ...]) -> None:
    """The mutant's filter allows every call of the family, whatever its arguments, and refuses another as before."""
    edit = frame.passing(*names)
    some = [name for name in names if name in ARCH.numbers]
    everything = [2**32 - 1] * 6
    assert {answer(bpf, edit, name, *everything) for name in some} <= {ALLOW}
    other = "ptrace" if "ptrace" not in names else "bpf"
    assert answer(bpf, edit, other) == answer(bpf, list, other) != ALLOW


def test_a_condition_is_asked(bpf: ModuleType) -> None:
    """A mutant that lets one kind of socket through refuses the others, in any order of the conditions."""
    edit = frame.passing("socket", when=[(0, "==", 38), (1, "&", 2)])
    assert answer(bpf, edit, "socket", 38, 2) == ALLOW
    assert answer(bpf, edit, "socket", 38, 5) == answer(bpf, list, "socket", 38, 5) != ALLOW
    assert answer(bpf, edit, "socket", 40, 2) == answer(bpf, list, "socket", 40, 2) != ALLOW


def test_every_rule_of_the_filter_has_a_mutant() -> None:
    """No name of the policy is without a family that lets it through."""
    families = {name for names in calls.FAMILIES.values() for name in names}
    assert families == {*rules.FORBIDDEN, *rules.NOT_THERE}
    assert {name for names in calls.CHECKED.values() for name in names} == set(rules.CHECKED)


def test_a_text_that_is_not_there_is_an_error() -> None:
    """A mutant of the helper alters each of its texts exactly once, or is none."""
    with pytest.raises(AssertionError, match="0 times"):
        build.altered("main.c", [("no such text", "")])
    with pytest.raises(AssertionError, match="times"):
        build.altered("main.c", [("SYS", "")])
    assert "helper_other" in build.altered("main.c", [("\nhelper_main (", "\nhelper_other (")])


@pytest.mark.parametrize("flags", [0, frame.NEWNS])
def test_no_mutant_writes_to_the_hosts_settings(flags: int) -> None:
    """A sandbox without a user namespace of its own is refused where its helper would set sysctls, or mount."""
    with pytest.raises(AssertionError, match="the host's"):
        frame.safe([ModeRecord(flags=0, clone_flags=flags), *([Sysctl("user/x", "0")] if flags else [])])  # type: ignore[arg-type]
