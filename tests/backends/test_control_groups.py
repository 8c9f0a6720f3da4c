"""Control groups on the real kernel: what they hold, what they count, what a command can do about them, and what is left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from isandbox import Quotas, SandboxClosedError, UnsupportedError, create_sandbox
from isandbox.testing.containment.host import cgroups_of
from isandbox_backends._shared import holding
from isandbox_backends._shared.cgroups import Place, Unavailable
from isandbox_backends._shared.holding import usable_controllers

pytestmark = pytest.mark.native

HERE = {"memory", "pids", "cpu", "cpuacct"} <= usable_controllers()
groups = pytest.mark.skipif(not HERE, reason="this process can make no control groups: run it as root or in a delegated scope")
NATIVE = pytest.mark.parametrize("backend", ["seccomp", "local"])


def ours(pid: int | None = None) -> set[str]:
    """Groups that a process made: other tests may run on this machine."""
    return set(cgroups_of({pid or os.getpid()}))


def holding_processes(group: str) -> list[str]:
    """Names of the commands' groups in a sandbox's group in which something runs."""
    return [path.parent.name for path in Path(group).glob("c*/cgroup.procs") if path.read_text()]


def cpu_stat(group: str) -> dict[str, int]:
    return {key: int(value) for key, value in map(str.split, Path(group, "cpu.stat").read_text().splitlines())}


@groups
@NATIVE
async def test_a_group_is_made_for_a_quota_that_needs_one(backend: str) -> None:
    """A plain sandbox has none: joining costs time. Memory, CPU time and a fraction of a CPU have; the layers say so."""
    before = ours()
    async with create_sandbox(backend) as plain:
        assert plain.info.layers["cgroup"].startswith("absent")
        assert ours() == before
    for quotas in (Quotas(memory="64MiB"), Quotas(cpu_time=1), Quotas(cpus=0.5)):
        async with create_sandbox(backend, quotas=quotas) as sandbox:
            assert sandbox.info.layers["cgroup"].startswith("enforced (v")
            made = ours() - before
            assert made
            assert (await sandbox.exec("true")).ok
            assert {path for path in ours() - made - before if "/c" in path.removeprefix("/sys/fs/cgroup/")} == set()
        assert ours() == before
        async with create_sandbox(backend, quotas=Quotas(memory="64MiB"), cgroup="never") as watched:
            assert watched.info.layers["cgroup"].startswith("absent")
            assert ours() == before


@groups
@NATIVE
async def test_nothing_is_left_whatever_runs(backend: str) -> None:
    """Commands at once, a time-out, a background child, a cancelled call, a program that does not start: no group stays."""
    before = ours()
    async with create_sandbox(backend, quotas=Quotas(memory="256MiB")) as sandbox:
        await asyncio.gather(*(sandbox.exec(f"echo {n}") for n in range(10)))
        assert (await sandbox.exec("sleep 60", timeout=0.2)).fault == "timeout"
        assert (await sandbox.exec("sleep 60 >/dev/null 2>&1 & echo x")).lingering
        assert (await sandbox.exec(["/no/such/program"])).exit_code == 127
        task = asyncio.create_task(sandbox.exec("sleep 60"))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sandbox.files.write("x", "y")
        assert len({path.rsplit("/", 1)[1] for path in ours() - before}) == 1
        for group in ours() - before:
            assert len(holding_processes(group)) == 1, "the background child's"
    assert ours() == before


@groups
@NATIVE
async def test_a_command_costs_no_memory_for_ever(backend: str, tmp_path: Path) -> None:
    """Hundreds of commands that leave a file each start under a small quota; a group for each would have used it up."""
    options = {"workspace": tmp_path} if backend == "local" else {}
    async with create_sandbox(backend, quotas=Quotas(memory="4MiB"), **options) as sandbox:  # type: ignore[arg-type]
        for n in range(300):
            result = await sandbox.exec(f"echo x > f{n}")
            assert (n, result.fault, result.exit_code, result.start_error) == (n, None, 0, None)


@groups
async def test_closing_beside_a_start_is_a_closed_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that finds its group gone because another thread closes the sandbox fails with that, not with a start."""
    async with create_sandbox("seccomp", quotas=Quotas(memory="64MiB")) as sandbox:
        core = sandbox._core  # type: ignore[attr-defined]
        begin = core.group.begin

        def outrun(id: int) -> object:
            core.end()
            return begin(id)

        monkeypatch.setattr(core.group, "begin", outrun)
        with pytest.raises(SandboxClosedError):
            await sandbox.exec("true")


UNIFIED = next((Path(d) for d in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup") if Path(d, "cgroup.controllers").exists()), None)


@pytest.mark.skipif(
    UNIFIED is None or os.geteuid() != 0, reason="needs root and a cgroup v2 mount, with or without controllers"
)
@NATIVE
async def test_version_2_on_the_real_kernel(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands join a v2 group from inside their namespaces, are counted by its cpu.stat, and leave nothing of it."""
    before = ours()
    found = Place("v2", {"cpuacct": str(UNIFIED)})  # every v2 group counts this, whatever its controllers
    monkeypatch.setattr(holding, "_place", lambda wanted: found if wanted == {"cpuacct"} else Unavailable("not here"))
    async with create_sandbox(backend, quotas=Quotas(cpu_time=0.3)) as sandbox:
        assert sandbox.info.layers["cgroup"] == "enforced (v2 (cpuacct))"
        (group,) = ours() - before
        result = await sandbox.exec(
            "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; cat /proc/self/cgroup; ls /proc/self/fd"
        )
        assert f"0::/{Path(group).name}/c1\n" in result.stdout
        assert result.stdout.splitlines()[-4:] == ["0", "1", "2", "3"]
        assert 0 < cpu_stat(f"{group}/c1")["usage_usec"] <= 1.1e6 * result.cpu_time + 10_000
        assert (await sandbox.exec("while :; do :; done", timeout=60)).fault == "cpu"
        assert (await sandbox.exec("sleep 60 >/dev/null 2>&1 & echo x")).lingering
        assert holding_processes(group) == ["c1"]
    assert ours() == before


@groups
async def test_time_that_nobody_waits_for_counts() -> None:
    """Children of a parent that ignores SIGCHLD leave no trace in /proc when they end; the group has counted them."""
    script = (
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nend = time.monotonic() + 20\n"
        "while time.monotonic() < end:\n    if os.fork() == 0:\n        spin = time.monotonic() + 0.02\n"
        "        while time.monotonic() < spin: pass\n        os._exit(0)\n    time.sleep(0.03)\n"
    )
    async with create_sandbox("seccomp", quotas=Quotas(cpu_time=0.4)) as sandbox:
        assert (await sandbox.exec(["python3", "-c", script], timeout=60)).fault == "cpu"


@groups
@NATIVE
async def test_a_fraction_of_a_cpu_is_held(backend: str) -> None:
    """A quarter of a CPU: the kernel has throttled the group, and a loop has used a part of its time only."""
    before = ours()
    async with create_sandbox(backend, quotas=Quotas(cpus=0.25)) as sandbox:
        stats = [Path(group, "cpu.stat") for group in ours() - before]
        assert not any(throttled(path) for path in stats)
        result = await sandbox.exec("while :; do :; done", timeout=1)
        assert result.fault == "timeout"
        assert result.cpu_time < 0.6 * result.duration
        assert any(throttled(path) for path in stats)


def throttled(stat: Path) -> int:
    if not stat.exists():  # version 1 has this file in one of its hierarchies
        return 0
    fields = dict(line.split() for line in stat.read_text().splitlines())
    return int(fields.get("nr_throttled", "0"))


@groups
async def test_every_refused_process_is_counted() -> None:
    """With a group no look is needed: a command that was refused one process, and ended at once, is told."""
    async with create_sandbox("seccomp", quotas=Quotas(memory="256MiB", pids=8)) as sandbox:
        script = "import os\ntry:\n    while os.fork(): pass\n    os.read(0, 1); os.pause()\nexcept OSError: os._exit(3)"
        script = script.replace("os.read(0, 1); os.pause()", "import signal; signal.pause()")
        for _ in range(3):
            result = await sandbox.exec(["python3", "-c", script], timeout=30)
            assert result.exit_code == 3
            assert set(result.limits_hit) == {"pids"}
            await sandbox.exec("kill -9 -1")


@groups
async def test_a_command_cannot_leave_its_group() -> None:
    """The group's files are nowhere inside, no descriptor of them is left open, and no file system of them can be mounted."""
    async with create_sandbox("seccomp", quotas=Quotas(memory="64MiB")) as sandbox:
        look = await sandbox.exec(
            "ls /proc/self/fd; ls -A /sys 2>/dev/null; grep -c cgroup /proc/self/mounts; ls /sys/fs/cgroup"
        )
        assert look.stdout.split() == ["0", "1", "2", "3", "0"], look
        mount = await sandbox.exec(
            ["python3", "-c", "import ctypes; print(ctypes.CDLL(None).mount(b'x', b'/tmp', b'cgroup', 0, 0))"]
        )
        assert mount.stdout == "-1\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's groups are made where they are delegated, if anywhere")
def test_a_killed_host_leaves_groups_for_the_next_to_remove(tmp_path: Path) -> None:
    """kill -9 of the host: its commands die, and the next process that makes a group removes what it left."""
    code = (
        "import os\nfrom isandbox import Quotas\nfrom isandbox.sync import create_sandbox\n"
        "s = create_sandbox('seccomp', quotas=Quotas(memory='64MiB'), workspace=os.environ['W'])\ns.exec('true')\n"
        "{end}"
    )
    environment = {**os.environ, "W": str(tmp_path)}

    def host(end: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code.format(end=end)]
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with host("print('made', flush=True)\ninput()") as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == "made"
        assert ours(process.pid)  # not afterwards: another test's process may be the next
        process.kill()
    with host("s.close()") as other:
        assert other.wait(timeout=60) == 0
    assert ours(process.pid) == set()


@NATIVE
async def test_why_there_is_no_group_is_told(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer of a quota that is watched says why: nobody needs a group, nobody wanted one, or none can be made."""
    monkeypatch.setattr(holding, "_place", lambda _: Unavailable("there are none today"))
    quotas = Quotas(memory="64MiB")
    for creation, why in (
        (create_sandbox(backend), "absent (no quota of this sandbox needs one)"),
        (create_sandbox(backend, quotas=quotas, cgroup="never"), "absent (cgroup='never')"),
        (create_sandbox(backend, quotas=quotas), "absent (there are none today)"),
    ):
        async with creation as sandbox:
            assert sandbox.info.layers["cgroup"] == why


@groups
def test_groups_are_looked_for_again(
    monkeypatch: pytest.MonkeyPatch, exhausted: Callable[[], AbstractContextManager[None]]
) -> None:
    """A process that cannot open files has no groups then, and has them as soon as it can: quotas are not watched for ever."""
    monkeypatch.setattr(holding, "_places", {})
    with exhausted():
        assert usable_controllers() == frozenset()
        assert holding._place(frozenset({"memory"})) == Unavailable("no control groups: Too many open files", passing=True)
    assert {"memory", "pids"} <= usable_controllers()


@NATIVE
def test_require_is_held_or_refused(backend: str) -> None:
    """cgroup='require' without groups, or without a quota that they hold, is refused by name when the options are given."""
    with pytest.raises(UnsupportedError, match="cgroup='require'") as caught:
        create_sandbox(backend, cgroup="require", quotas=Quotas(pids=None) if backend == "seccomp" else None)
    assert caught.value.option == "cgroup"
