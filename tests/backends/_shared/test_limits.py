"""Quotas to rlimits and CPU masks."""

from __future__ import annotations

import os
from typing import Any

import pytest

from isandbox import Policy, Quotas, UnsupportedError
from isandbox_backends._shared.limits import (
    RLIMIT_CORE,
    RLIMIT_CPU,
    RLIMIT_DATA,
    RLIMIT_FSIZE,
    RLIMIT_NICE,
    RLIMIT_NOFILE,
    RLIMIT_RTPRIO,
    affinity_records,
    check_cpus,
    limit_records,
)
from isandbox_backends._shared.plan import Affinity, Rlimit

NET = (1 << 20) + (4 << 30)  # what the watcher could not look at in time
NOTHING: frozenset[str] = frozenset()
HELD = frozenset({"cpus"})
ALWAYS = [Rlimit(RLIMIT_CORE, 1, 1), Rlimit(RLIMIT_NICE, 0, 0), Rlimit(RLIMIT_RTPRIO, 0, 0)]


@pytest.mark.parametrize(
    ("quotas", "hard", "records"),
    [
        (Quotas(open_files=None), 4096, ALWAYS),
        (Quotas(), 4096, [*ALWAYS, Rlimit(RLIMIT_NOFILE, 1024, 1024)]),
        (Quotas(), 512, [*ALWAYS, Rlimit(RLIMIT_NOFILE, 512, 512)]),
        (Quotas(open_files=None, file_size="1KiB"), 4096, [*ALWAYS, Rlimit(RLIMIT_FSIZE, 1024, 1024)]),
        (Quotas(open_files=None, memory="1MiB"), 4096, [*ALWAYS, Rlimit(RLIMIT_DATA, NET, NET)]),
        (Quotas(open_files=None, cpu_time=0.2), 4096, [*ALWAYS, Rlimit(RLIMIT_CPU, 2, 2)]),
        (Quotas(open_files=None, cpu_time=3), 4096, [*ALWAYS, Rlimit(RLIMIT_CPU, 4, 4)]),
    ],
)
def test_rlimits(quotas: Quotas, hard: int, records: list[Any]) -> None:
    """Soft and hard are the same, so that a command cannot raise one; no core dumps, no priorities; never above the caller's own."""
    assert limit_records(quotas, hard_open_files=hard) == records


def test_a_group_that_holds_memory_needs_no_net() -> None:
    """The kernel ends what is over a control group's limit; an rlimit would only make an allocation fail before."""
    quotas = Quotas(open_files=None, memory="1MiB")
    assert limit_records(quotas, hard_open_files=4096, held=frozenset({"memory"})) == ALWAYS


def test_numbers_are_the_platforms() -> None:
    """The constants written down are the ones of this kernel."""
    import resource

    names = {
        "CPU": RLIMIT_CPU,
        "FSIZE": RLIMIT_FSIZE,
        "DATA": RLIMIT_DATA,
        "CORE": RLIMIT_CORE,
        "NOFILE": RLIMIT_NOFILE,
        "NICE": RLIMIT_NICE,
        "RTPRIO": RLIMIT_RTPRIO,
    }
    assert {name: getattr(resource, f"RLIMIT_{name}") for name in names} == names


def test_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first CPUs of those that this process may use, whatever their numbers; more than it has is refused."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 3, 65})
    assert affinity_records(Policy(), NOTHING) == []
    assert affinity_records(Policy(quotas=Quotas(cpus=2)), NOTHING) == [Affinity((3, 7))]
    assert affinity_records(Policy(quotas=Quotas(cpus=3)), NOTHING) == [Affinity((3, 7, 65))]
    assert affinity_records(Policy(quotas=Quotas(cpus=1.5), waive=frozenset({"cpus"})), NOTHING) == []
    for fine in (Policy(), Policy(quotas=Quotas(cpus=3)), Policy(quotas=Quotas(cpus=9), waive=frozenset({"cpus"}))):
        check_cpus(fine, "x", NOTHING)
    for cpus in (4, 1.5):
        with pytest.raises(UnsupportedError, match="the 3 that this process may use") as caught:
            check_cpus(Policy(quotas=Quotas(cpus=cpus)), "x", NOTHING)
        assert (caught.value.option, caught.value.backend) == ("quotas.cpus", "x")
        check_cpus(Policy(quotas=Quotas(cpus=cpus)), "x", HELD)
    assert affinity_records(Policy(quotas=Quotas(cpus=2)), HELD) == []
