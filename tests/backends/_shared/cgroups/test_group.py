"""Groups of a sandbox and its commands, on a simulated kernel: what is written where, and that nothing is left."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from isandbox_backends._shared.cgroups import Limits, NotHeldError, Place, SandboxGroup, group
from isandbox_backends._shared.protocol import Meter


def load_kernel() -> Any:
    """The module beside this one: tests are no package."""
    spec = importlib.util.spec_from_file_location("isandbox_test_cgroups_kernel_2", Path(__file__).with_name("kernel.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


Kernel = load_kernel().SimulatedKernel
LIMITS = Limits(memory=64 << 20, pids=32, cpus=1.5)


def v2() -> tuple[Any, Place]:
    kernel = Kernel("", "")
    kernel.add("/cg", owned=True, given="memory pids cpu", root=True)
    return kernel, Place("v2", dict.fromkeys(("cpu", "memory", "pids", "cpuacct"), "/cg"))


def v1() -> tuple[Any, Place]:
    kernel = Kernel("", "")
    for name in ("memory", "pids"):
        kernel.add_v1(f"/cg/{name}", name, owned=True)
    kernel.add_v1("/cg/both", "cpu,cpuacct", owned=True)
    return kernel, Place("v1", {"memory": "/cg/memory", "pids": "/cg/pids", "cpu": "/cg/both", "cpuacct": "/cg/both"})


VERSIONS = pytest.mark.parametrize("version", [v1, v2])


def made(version: Any, limits: Limits = LIMITS) -> tuple[Any, SandboxGroup]:
    kernel, place = version()
    sandbox = SandboxGroup(place, "isandbox-x", limits, kernel)
    sandbox.make()
    return kernel, sandbox


def test_limits_of_version_2() -> None:
    """The sandbox's group holds them, and gives its commands' groups the controllers; a command's group ends as a whole."""
    kernel, sandbox = made(v2)
    command = sandbox.begin(7)
    files = kernel.groups["/cg/isandbox-x"].files
    assert files["cgroup.subtree_control"] == "+cpu +memory +pids".replace("+", "")
    assert (files["memory.max"], files["memory.swap.max"], files["pids.max"]) == ("67108864", "0", "32")
    assert files["cpu.max"] == "150000 100000"
    of_command = kernel.groups["/cg/isandbox-x/c7"].files
    assert (of_command["memory.oom.group"], of_command["pids.max"]) == ("1", "32")
    assert kernel.opened == [
        "/cg/isandbox-x/c7/cgroup.procs",
        "/cg/isandbox-x/c7/memory.events",
        "/cg/isandbox-x/c7/pids.events",
        "/cg/isandbox-x/pids.events",
        "/cg/isandbox-x/c7/cpu.stat",
    ]
    assert command.meters == Meter.MEMORY | Meter.PIDS | Meter.PIDS_ALL | Meter.CPU
    command.close()


def test_limits_of_version_1() -> None:
    """The same quotas under that version's names, in a group per hierarchy, each of which a command joins."""
    kernel, sandbox = made(v1)
    command = sandbox.begin(7)
    memory = kernel.groups["/cg/memory/isandbox-x"].files
    assert (memory["memory.limit_in_bytes"], memory["memory.memsw.limit_in_bytes"]) == ("67108864", "67108864")
    assert kernel.groups["/cg/pids/isandbox-x"].files["pids.max"] == "32"
    cpu = kernel.groups["/cg/both/isandbox-x"].files
    assert (cpu["cpu.cfs_period_us"], cpu["cpu.cfs_quota_us"]) == ("100000", "150000")
    assert [path.split("/")[2] for path in kernel.opened if path.endswith("cgroup.procs")] == ["memory", "pids", "both"]
    assert command.meters == Meter.MEMORY | Meter.PIDS | Meter.CPU
    assert len(command.descriptors()) == 6
    command.close()


@VERSIONS
def test_only_what_is_limited_is_written_and_counted(version: Any) -> None:
    """Without a limit no limit is written; a counter of nothing is not asked for."""
    kernel, sandbox = made(version, Limits())
    command = sandbox.begin(1)
    assert command.meters == Meter.CPU
    texts = {text for path in kernel.below("/cg") for name, text in kernel.groups[path].files.items() if "max" in name}
    assert texts <= {"0"}
    command.close()


@VERSIONS
def test_a_kernel_without_swap_accounting(version: Any) -> None:
    """The limit of swap is left out where there is no file for it, and nothing else is."""
    kernel, place = version()
    made_before = kernel.make

    def make(path: str) -> None:
        made_before(path)
        for name in ("memory.memsw.limit_in_bytes", "memory.swap.max"):
            kernel.groups[path].files.pop(name, None)

    kernel.make = make
    SandboxGroup(place, "isandbox-x", LIMITS, kernel).make()
    written = {name: text for group in kernel.groups.values() for name, text in group.files.items() if text not in ("", "0")}
    assert written["memory.max" if version is v2 else "memory.limit_in_bytes"] == "67108864"
    assert written["pids.max"] == "32"
    assert not {"memory.memsw.limit_in_bytes", "memory.swap.max"} & set(written)


@VERSIONS
def test_whatever_fails_leaves_nothing(version: Any) -> None:
    """Each step of making both groups, failed one after the other: no group and no descriptor stays."""
    before = set(os.listdir("/proc/self/fd"))
    steps = 0
    while True:
        kernel, place = version()
        kernel.fail_after = steps
        sandbox = SandboxGroup(place, "isandbox-x", LIMITS, kernel)
        try:
            sandbox.make()
        except OSError:
            assert not [path for path in kernel.groups if "isandbox-x" in path]
        else:
            try:
                sandbox.begin(3).close()
            except OSError:
                assert not [path for path in kernel.groups if path.endswith("/c3")]
            else:
                break
        assert set(os.listdir("/proc/self/fd")) == before
        steps += 1
    assert steps > 8


def commands(kernel: Any) -> set[str]:
    """Names of the groups of commands."""
    return {path.rsplit("/", 1)[1] for path in kernel.groups if "/isandbox-x/" in path}


@VERSIONS
def test_a_group_is_used_again(version: Any) -> None:
    """Commands one after the other share a group: one that is removed may cost memory for as long as the sandbox lives."""
    kernel, sandbox = made(version)
    for number in range(1, 20):
        sandbox.begin(number).close()
        sandbox.end(number)
    assert commands(kernel) == {"c1"}
    for number in (20, 21, 22):
        sandbox.begin(number).close()
    assert commands(kernel) == {"c1", "c21", "c22"}


@VERSIONS
def test_a_background_child_keeps_its_group(version: Any) -> None:
    """No other command gets the group in which a child lives; once the child is gone one does, and closing removes all."""
    kernel, sandbox = made(version)
    sandbox.begin(1).close()
    held = next(path for path in kernel.groups if path.endswith("/c1"))
    kernel.groups[held].processes = 1
    sandbox.end(1)
    for number in range(2, 20):
        sandbox.begin(number).close()
        sandbox.end(number)
    assert commands(kernel) == {"c1", "c2"}
    kernel.groups[held].processes = 0
    for number in (20, 21):
        sandbox.begin(number).close()
    assert commands(kernel) == {"c1", "c2"}
    sandbox.remove()
    assert not [path for path in kernel.groups if "isandbox-x" in path]
    sandbox.remove()


@VERSIONS
def test_a_group_that_somebody_removed_is_made_anew(version: Any) -> None:
    """An ended command's group that is gone, whole or in one hierarchy, is no obstacle for the next command."""
    kernel, sandbox = made(version)
    sandbox.begin(1).close()
    sandbox.end(1)
    kernel.remove(next(path for path in kernel.groups if path.endswith("/c1")))
    sandbox.begin(2).close()
    assert commands(kernel) == {"c2"}


@VERSIONS
def test_removal_beside_somebody_else(version: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's group that is gone between the look and its removal does not keep the sandbox's group alive."""
    kernel, sandbox = made(version)
    sandbox.begin(1).close()
    look = kernel.list

    def outrun(path: str) -> list[str]:
        names: list[str] = look(path)
        for name in names:
            kernel.remove(f"{path}/{name}")
        return names

    monkeypatch.setattr(kernel, "list", outrun)
    assert sandbox.remove_now()
    assert not [path for path in kernel.groups if "isandbox-x" in path]


@VERSIONS
def test_what_does_not_empty_is_told(version: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group with a process that the kernel cannot end is an error after a while, not a hang."""
    monkeypatch.setattr(group, "_REMOVE_WITHIN", 0.02)
    kernel, sandbox = made(version)
    sandbox.begin(1).close()
    for path in kernel.below("/cg"):
        if path.endswith("/c1"):
            kernel.groups[path].processes = 1
    with pytest.raises(OSError, match="still holds processes"):
        sandbox.remove()


def test_the_smallest_share_of_a_cpu() -> None:
    """The kernel takes no quota below a millisecond a period."""
    kernel, _ = made(v2, Limits(cpus=0.001))
    assert kernel.groups["/cg/isandbox-x"].files["cpu.max"] == "1000 100000"


# file -> what it reads back as, though the write did not fail
NOT_HELD = [
    (v1, "memory.limit_in_bytes", "9223372036854771712"),
    (v1, "memory.limit_in_bytes", str((64 << 20) + 4096)),
    (v1, "pids.max", "max"),
    (v1, "cpu.cfs_quota_us", "-1"),
    (v2, "memory.max", "max"),
    (v2, "memory.swap.max", "max"),
    (v2, "pids.max", "33"),
    (v2, "cpu.max", "max 100000"),
]


@pytest.mark.parametrize(("version", "file", "text"), NOT_HELD)
def test_a_limit_that_does_not_read_back_is_refused(version: Any, file: str, text: str) -> None:
    """A kernel that takes a limit and holds another one: an error that names the file, and nothing is left."""
    kernel, place = version()
    read = kernel.read
    kernel.read = lambda path: text + "\n" if path.endswith(f"/{file}") else read(path)
    before = set(kernel.groups)
    with pytest.raises(NotHeldError, match=f"reads back as '{text}'") as caught:
        SandboxGroup(place, "isandbox-x", LIMITS, kernel).make()
    assert str(caught.value.filename).endswith(file)
    assert set(kernel.groups) == before


def test_bytes_may_be_rounded_down_to_a_page() -> None:
    """A limit in bytes is held in whole pages: less than a page below what was asked for is as written."""
    kernel, place = v1()
    write = kernel.write
    kernel.write = lambda path, text: write(path, str(int(text) & ~0xFFFF) if "memory." in path else text)
    SandboxGroup(place, "isandbox-x", Limits(memory=(64 << 20) + 4097), kernel).make()
    assert any("isandbox-x" in group for group in kernel.groups)
