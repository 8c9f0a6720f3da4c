"""The host's side of transfers among others who may write there, with long paths, and when descriptors are short."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from isandbox import TransferRefusedError
from isandbox.files import host
from isandbox.files.host import Entry, HostTree, Landing, Plan
from isandbox.files.limits import Limits, Options
from isandbox.files.names import check_component, leads_out


def tree(*directories: str) -> Plan:
    plan = Plan(Limits(), "refuse")
    plan.entries += [Entry(path, "directory", 0o755) for path in ("", *directories)]
    return plan


def hidden(top: Path) -> list[str]:
    return [name for name in os.listdir(top) if name.startswith(".isandbox-")]


def test_a_swapped_temporary_directory_is_not_committed(tmp_path: Path) -> None:
    """Whoever may write beside the target can move ours and put another there: what lands is ours, theirs is left alone."""
    with contextlib.closing(Landing(tmp_path / "t", tree=True)) as landing:
        landing.make_dirs(tree())
        landing.put("mine", 0o644, b"x")
        (name,) = hidden(tmp_path)
        (tmp_path / name).rename(tmp_path / "moved")
        (tmp_path / name / "file").mkdir(parents=True)
        (tmp_path / name / "file" / "theirs").write_text("x")
        landing.commit()
    assert os.listdir(tmp_path / "t") == ["mine"]
    assert os.listdir(tmp_path / name / "file") == ["theirs"]


def test_a_moved_temporary_directory_is_still_emptied(tmp_path: Path) -> None:
    """What was downloaded does not stay behind under another name."""
    with contextlib.closing(Landing(tmp_path / "t", tree=True)) as landing:
        landing.make_dirs(tree("d"))
        landing.put("d/secret", 0o644, b"x")
        (tmp_path / hidden(tmp_path)[0]).rename(tmp_path / "moved")
    assert list((tmp_path / "moved").iterdir()) == []


def test_the_longest_paths_are_removed(tmp_path: Path) -> None:
    """A tree with paths as long as they can be, which are longer below the temporary directory: nothing is left of it."""
    names = ["n" * 250] * 16 + ["m" * 60]
    paths = ["/".join(names[: depth + 1]) for depth in range(len(names))]
    assert len("file/" + paths[-1]) < 4096 < len(".isandbox-0123456789abcdef/file/" + paths[-1])
    with contextlib.closing(Landing(tmp_path / "t", tree=True)) as landing:
        landing.make_dirs(tree(*paths))
    assert os.listdir(tmp_path) == []


@pytest.fixture
def few_descriptors() -> Iterator[list[int]]:
    """Every descriptor that this process may have, to close some again."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield taken
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_nothing_is_left_when_descriptors_run_out(tmp_path: Path, few_descriptors: list[int]) -> None:
    """At whichever step there is none: OSError, and no temporary directory; with enough of them it lands."""
    landed = 0
    for spare in range(12):
        for _ in range(bool(spare)):
            os.close(few_descriptors.pop())
        with contextlib.suppress(OSError):  # noqa: SIM117 - the landing is closed before
            with contextlib.closing(Landing(tmp_path / f"t{spare}", tree=True)) as landing:
                landing.make_dirs(tree("d"))
                landing.put("d/f", 0o644, b"x")
                landing.commit()
                landed += 1
        assert (spare, [name for name in _names(tmp_path, few_descriptors) if name.startswith(".")]) == (spare, [])
    assert 0 < landed < 12


def _names(top: Path, few_descriptors: list[int]) -> list[str]:
    """Listing takes a descriptor."""
    os.close(few_descriptors.pop())
    names = os.listdir(top)
    few_descriptors.append(os.dup(0))
    return names


def test_a_full_directory_is_not_listed_past_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that may write to a workspace fills it for the price of a name each: no more are looked at than may be."""
    for number in range(300):
        (tmp_path / f"{number}").touch()
    looked = []
    real = os.stat

    def counted(path: str, **options: object) -> os.stat_result:
        looked.append(path)
        return real(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(host.os, "stat", counted)
    with pytest.raises(TransferRefusedError) as caught:
        HostTree(tmp_path, Options(Limits(members=20)))
    assert caught.value.rule == "members"
    assert len(looked) < 30
    monkeypatch.undo()
    with contextlib.closing(HostTree(tmp_path, Options(Limits(members=300)))) as listed:
        assert len(listed.plan.of_kind("file")) == 300


def test_names_have_a_bound_of_their_own() -> None:
    """Not only their number: a tree may have few names that are long, and hold much memory."""
    plan = Plan(Limits(), "skip")
    long = "/".join(["\U0001f600" + "n" * 240] * 16)
    with pytest.raises(TransferRefusedError) as caught:  # noqa: PT012
        for number in range(100_000):
            plan.add(Entry(f"{long}{number}", "file", 0o644))
    assert caught.value.rule == "members"
    assert len(plan.entries) > 10_000


def test_a_name_that_no_file_can_have() -> None:
    """A lone surrogate is no bytes of a name: refused by a rule, not an error of some codec."""
    for check in (lambda: check_component("a\ud800", "a\ud800"), lambda: leads_out("l", "\udfff")):
        with pytest.raises(TransferRefusedError) as caught:
            check()
        assert caught.value.rule == "name"
    check_component("a\udcff", "a\udcff")  # a byte that is no UTF-8


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The error names what the caller knows of, not a name of ours."""
    with pytest.raises(OSError, match="/proc") as caught:
        Landing("/proc/new", tree=False)
    assert caught.value.filename == "/proc"
