"""Whose a group is: what is alive is never removed, what is dead is."""

from __future__ import annotations

import os
from typing import Any

import pytest

from isandbox_backends._shared.cgroups.fs import KernelFs
from isandbox_backends._shared.cgroups.owner import new_name, remove_dead

PID_NAMESPACE = os.stat("/proc/self/ns/pid").st_ino


def start_time(pid: int) -> str:
    return KernelFs().read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]


ALIVE = f"{os.getpid()}-{start_time(os.getpid())}"
REMOVED = [
    f"isandbox-{PID_NAMESPACE}-4194303-77-0123456789ab",  # no process
    f"isandbox-{PID_NAMESPACE}-{os.getpid()}-1-0123456789ab",  # the number is another process's by now
]
KEPT = [
    f"isandbox-{PID_NAMESPACE}-{ALIVE}-0123456789ab",
    f"isandbox-{PID_NAMESPACE + 1}-4194303-77-0123456789ab",  # another namespace's processes cannot be seen from here
    f"isandbox-{PID_NAMESPACE}-4194303-77-0123456789abc",
    f"isandbox-{PID_NAMESPACE}-4194303-77",
    "isandbox-4194303",
    "isandbox-seccomp-" + "0" * 32,  # outlives its maker
    "isandbox-0-4194303-0-0123456789ab",  # of one that could not tell its own name
    f"other-{PID_NAMESPACE}-4194303-77-0123456789ab",
]


class Directories(KernelFs):
    """The machine's /proc, and plain directories in place of groups."""


@pytest.mark.parametrize(
    ("name", "stays"), [*((name, False) for name in REMOVED), *((name, True) for name in KEPT)], ids=range(len(REMOVED + KEPT))
)
def test_who_is_dead(tmp_path: Any, name: str, stays: bool) -> None:
    """Only a name of our own form whose process, in this pid namespace, does not exist any more."""
    (tmp_path / name / "c1").mkdir(parents=True)
    assert remove_dead(Directories(), str(tmp_path)) == (() if stays else (str(tmp_path / name),))
    assert (tmp_path / name / "c1").exists() is stays


def test_what_cannot_be_removed_stays(tmp_path: Any) -> None:
    """A group that is still in use is left, and the others are removed all the same."""
    busy, empty = (tmp_path / f"{name[:-1]}{digit}" for name, digit in ((REMOVED[0], 1), (REMOVED[0], 2)))
    (busy / "c1").mkdir(parents=True)
    (busy / "c1" / "in use").write_text("")
    empty.mkdir()
    remove_dead(Directories(), str(tmp_path))
    assert busy.exists()
    assert not empty.exists()
    remove_dead(Directories(), str(tmp_path / "nowhere"))


def test_two_who_clean_up_at_once(tmp_path: Any) -> None:
    """What another process has removed meanwhile is no reason to leave the rest."""

    class Outrun(Directories):
        def list(self, path: str) -> list[str]:
            return [*(["c0"] if path != str(tmp_path) else []), *super().list(path)]

    (tmp_path / REMOVED[0] / "c1").mkdir(parents=True)
    remove_dead(Outrun(), str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_our_own_name_is_alive(tmp_path: Any) -> None:
    """The name that a process gives is one that it would not remove."""
    (tmp_path / new_name()).mkdir()
    remove_dead(Directories(), str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 1
