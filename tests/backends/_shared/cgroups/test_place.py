"""Where groups can be made, on machines of every kind; nothing that exists is ever changed."""

from __future__ import annotations

import copy
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox_backends._shared.cgroups import Place, Unavailable, find_place


def load(name: str) -> Any:
    """A module beside this one: tests are no package."""
    spec = importlib.util.spec_from_file_location(f"isandbox_test_cgroups_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


Kernel = load("kernel").SimulatedKernel

V2_MOUNT = "30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "31 24 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "32 24 0:28 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
    "33 24 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "34 24 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
)
TOP = "/sys/fs/cgroup"
ALL = frozenset({"memory", "pids", "cpu"})


def desktop(*, delegated: bool) -> Any:
    """systemd, version 2, an ordinary user: in a terminal of the user's own manager, or in a session of root's."""
    base = "/user.slice/user-1000.slice"
    kernel = Kernel(V2_MOUNT, f"0::{base}/user@1000.service/app.slice/term.scope\n" if delegated else f"0::{base}/s-2.scope\n")
    kernel.add(TOP, owned=False, given="memory pids cpu io", root=True)
    kernel.add(f"{TOP}/user.slice", owned=False, given="memory pids cpu io")
    kernel.add(f"{TOP}{base}", owned=False, given="memory pids cpu io")
    kernel.add(f"{TOP}{base}/s-2.scope", owned=False, processes=3)
    kernel.add(f"{TOP}{base}/user@1000.service", owned=True, given="memory pids cpu")
    kernel.add(f"{TOP}{base}/user@1000.service/app.slice", owned=True, given="memory pids cpu")
    kernel.add(f"{TOP}{base}/user@1000.service/app.slice/term.scope", owned=True, processes=2)
    return kernel


def test_a_delegated_user() -> None:
    """In a group of systemd's user manager: beside the own scope, in the slice that gives its children the controllers."""
    place = find_place(ALL, desktop(delegated=True))
    assert isinstance(place, Place)
    assert (place.version, set(place.directories)) == (
        "v2",
        {f"{TOP}/user.slice/user-1000.slice/user@1000.service/app.slice"},
    )


def test_a_session_that_is_not_delegated() -> None:
    """A user whose session belongs to root gets no group, and the command that gives one."""
    found = find_place(ALL, desktop(delegated=False))
    assert isinstance(found, Unavailable)
    assert "systemd-run --user --scope" in found.why


def test_root_under_systemd() -> None:
    """Root's session: in the slice above it, whose children have the controllers."""
    kernel = desktop(delegated=False)
    for group in kernel.groups.values():
        group.owned = True
    place = find_place(ALL, kernel)
    assert isinstance(place, Place)
    assert place.directories == (f"{TOP}/user.slice/user-1000.slice",)


def test_a_container_of_version_2() -> None:
    """In the root of a cgroup namespace, with our process in it, no group can get controllers: a group of type domain."""
    kernel = Kernel(V2_MOUNT, "0::/\n")
    kernel.add(TOP, owned=True, processes=1)
    assert isinstance(find_place(ALL, kernel), Unavailable)


def test_the_very_root_of_version_2() -> None:
    """Only the root of all groups may hold processes and give controllers."""
    kernel = Kernel(V2_MOUNT, "0::/\n")
    kernel.add(TOP, owned=True, processes=90, given="memory pids cpu", root=True)
    place = find_place(ALL, kernel)
    assert isinstance(place, Place)
    assert place.directories == (TOP,)


def test_a_missing_controller_goes_further_up() -> None:
    """A group that gives its children only some of what is wanted is passed by; what is found must give all."""
    kernel = Kernel(V2_MOUNT, "0::/a/b/c\n")
    kernel.add(TOP, owned=True, given="memory pids cpu", root=True)
    kernel.add(f"{TOP}/a", owned=True, given="memory pids")
    kernel.add(f"{TOP}/a/b", owned=True, given="pids")
    kernel.add(f"{TOP}/a/b/c", owned=True, processes=1)
    for wanted, directory in (({"pids"}, "/a/b"), ({"pids", "memory"}, "/a"), ({"cpu"}, ""), ({"pids", "cpuacct"}, "/a/b")):
        place = find_place(frozenset(wanted), kernel)
        assert isinstance(place, Place)
        assert place.directories == (TOP + directory,)
        assert wanted <= set(place.parents)
    assert isinstance(find_place(frozenset({"memory", "hugetlb"}), kernel), Unavailable)


def v1(cgroup: str = "4:memory:/jobs/7\n3:pids:/\n2:cpu,cpuacct:/jobs\n0::/\n", *, owned: bool = True) -> Any:
    kernel = Kernel(V1_MOUNTS, cgroup)
    for path, controllers in (("/memory", "memory"), ("/memory/jobs/7", "memory"), ("/pids", "pids")):
        kernel.add_v1(TOP + path, controllers, owned=owned)
    for path in ("/cpu,cpuacct", "/cpu,cpuacct/jobs"):
        kernel.add_v1(TOP + path, "cpu,cpuacct", owned=owned)
    return kernel


def test_version_1_as_root() -> None:
    """In the group where this process is, of each hierarchy; two controllers of one hierarchy share a directory."""
    place = find_place(ALL | {"cpuacct"}, v1())
    assert isinstance(place, Place)
    assert place.version == "v1"
    assert place.directories == (f"{TOP}/cpu,cpuacct/jobs", f"{TOP}/memory/jobs/7", f"{TOP}/pids")


def test_version_1_as_a_user() -> None:
    """Nobody delegates groups of version 1."""
    found = find_place(ALL, v1(owned=False))
    assert found == Unavailable("cgroup v1, whose groups only root can make")


def test_version_1_without_a_controller() -> None:
    """The missing one is named; what version 1 does not have at all is looked for in version 2."""
    kernel = v1()
    kernel.texts["/proc/self/mountinfo"] = V1_MOUNTS.splitlines(keepends=True)[0]
    assert find_place(frozenset({"memory", "pids"}), kernel) == Unavailable("cgroup v1 without the pids controller")
    assert find_place(frozenset({"pids"}), kernel) == Unavailable("no control groups are mounted here")


def test_a_mount_that_shows_a_part() -> None:
    """A bind mount of a subtree, as containers have it: the own group is found in it, or it is not there."""
    kernel = v1()
    mounts = V1_MOUNTS.replace(" / /sys/fs/cgroup/memory ", " /jobs /sys/fs/cgroup/memory ")
    kernel.texts["/proc/self/mountinfo"] = mounts
    kernel.add_v1(f"{TOP}/memory/7", "memory", owned=True)
    place = find_place(frozenset({"memory"}), kernel)
    assert isinstance(place, Place)
    assert place.directories == (f"{TOP}/memory/7",)
    kernel.texts["/proc/self/cgroup"] = "4:memory:/elsewhere\n"
    assert isinstance(find_place(frozenset({"memory"}), kernel), Unavailable)


@pytest.mark.parametrize("path", ["/../../x", "/..", "/a/../.."])
def test_outside_the_cgroup_namespace(path: str) -> None:
    """The kernel shows a way up for a process outside its namespace's root: there is no directory for that."""
    kernel = Kernel(V2_MOUNT, f"0::{path}\n")
    kernel.add(TOP, owned=True, given="memory pids cpu", root=True)
    assert isinstance(find_place(ALL, kernel), Unavailable)


def test_escaped_mount_points() -> None:
    """A mount point with a space is written in octal."""
    kernel = Kernel(V2_MOUNT.replace("/sys/fs/cgroup", "/odd\\040place"), "0::/\n")
    kernel.add("/odd place", owned=True, given="memory pids cpu", root=True)
    place = find_place(ALL, kernel)
    assert isinstance(place, Place)
    assert place.directories == ("/odd place",)


def test_no_proc() -> None:
    """Without /proc there is no place, and no exception."""

    class Nothing:
        def read(self, path: str) -> str:
            raise FileNotFoundError(2, "No such file or directory", path)

    assert find_place(ALL, Nothing()) == Unavailable("no control groups: No such file or directory")  # type: ignore[arg-type]


@given(st.text(max_size=200), st.text(max_size=80))
def test_any_text_is_a_place_or_none(mountinfo: str, cgroup: str) -> None:
    """What the kernel says is parsed without trust: nothing but a place or a reason comes of it."""
    kernel = Kernel(V2_MOUNT + mountinfo, cgroup)
    kernel.add(TOP, owned=True, given="memory pids cpu", root=True)
    assert isinstance(find_place(ALL, kernel), (Place, Unavailable))


def test_looking_changes_nothing() -> None:
    """Finding a place only reads."""
    for kernel in (desktop(delegated=True), desktop(delegated=False), v1()):
        before = copy.deepcopy(kernel.groups)
        find_place(ALL, kernel)
        assert kernel.groups == before


def test_a_group_that_cannot_be_read_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of descriptors nothing is concluded from a group on the way; what may not be read ends the search as ever."""
    kernel = desktop(delegated=True)
    read = kernel.read
    for number, passing in ((24, True), (13, False)):

        def refuse(path: str, number: int = number) -> str:
            if path.endswith("subtree_control"):
                raise OSError(number, "no")
            return str(read(path))

        monkeypatch.setattr(kernel, "read", refuse)
        found = find_place(ALL, kernel)
        assert isinstance(found, Unavailable)
        assert found.passing is passing
