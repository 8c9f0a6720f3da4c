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

ALWAYS = [Rlimit(RLIMIT_CORE, 0, 0), Rlimit(RLIMIT_NICE, 0, 0), Rlimit(RLIMIT_RTPRIO, 0, 0)]


@pytest.mark.parametrize(
    ("quotas", "hard", "records"),
    [
        (Quotas(open_files=None), 4096, ALWAYS),
        (Quotas(), 4096, [*ALWAYS, Rlimit(RLIMIT_NOFILE, 1024, 1024)]),
        (Quotas(), 512, [*ALWAYS, Rlimit(RLIMIT_NOFILE, 512, 512)]),
        (Quotas(open_files=None, file_size="1KiB"), 4096, [*ALWAYS, Rlimit(RLIMIT_FSIZE, 1024, 1024)]),
        (Quotas(open_files=None, memory="1MiB"), 4096, [*ALWAYS, Rlimit(RLIMIT_DATA, 1 << 20, 1 << 20)]),
        (Quotas(open_files=None, cpu_time=0.2), 4096, [*ALWAYS, Rlimit(RLIMIT_CPU, 2, 2)]),
        (Quotas(open_files=None, cpu_time=3), 4096, [*ALWAYS, Rlimit(RLIMIT_CPU, 4, 4)]),
    ],
)
def test_rlimits(quotas: Quotas, hard: int, records: list[Any]) -> None:
    """Soft and hard are the same, so that a command cannot raise one; no core dumps, no priorities; never above the caller's own."""
    assert limit_records(quotas, hard_open_files=hard) == records


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
    assert affinity_records(Policy()) == []
    assert affinity_records(Policy(quotas=Quotas(cpus=2))) == [Affinity((3, 7))]
    assert affinity_records(Policy(quotas=Quotas(cpus=3))) == [Affinity((3, 7, 65))]
    assert affinity_records(Policy(quotas=Quotas(cpus=1.5), waive=frozenset({"cpus"}))) == []
    for fine in (Policy(), Policy(quotas=Quotas(cpus=3)), Policy(quotas=Quotas(cpus=9), waive=frozenset({"cpus"}))):
        check_cpus(fine, "x")
    for cpus in (4, 1.5):
        with pytest.raises(UnsupportedError, match="the 3 that this process may use") as caught:
            check_cpus(Policy(quotas=Quotas(cpus=cpus)), "x")
        assert (caught.value.option, caught.value.backend) == ("quotas.cpus", "x")
