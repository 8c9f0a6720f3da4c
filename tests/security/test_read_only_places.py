"""Attacks on what may be read and not written: programs, /etc, the root, mounts, devices, the kernel's control files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from isandbox import Mount, Workspace
from isandbox_backends._shared.plan import RDONLY, Bind, Record

pytestmark = pytest.mark.native

WRITE = """
for place in PLACES:
    new = place.rstrip("/") + "/isandbox-probe"
    out[place] = [attempt(lambda: os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))),
                  attempt(os.mkdir, new + "d"), attempt(os.symlink, "x", new + "l"), attempt(os.mkfifo, new + "f")]
"""

OVERWRITE = """
for path in PATHS:
    out[path] = [opened(path, os.O_WRONLY), opened(path, os.O_RDWR), attempt(os.truncate, path, 0), attempt(os.chmod, path, 0o777),
                 attempt(os.utime, path, (1, 1)), attempt(os.rename, path, path + ".isandbox"), attempt(os.unlink, path)]
"""


def test_programs_and_configuration_cannot_be_written(make: Any, probes: Any) -> None:
    """Nothing can be made in, or changed below, any directory but the scratch places and the workspace."""
    box = make()
    places = [
        "/",
        "/usr",
        "/usr/bin",
        "/usr/local",
        "/bin",
        "/lib",
        "/etc",
        "/etc/ssl",
        "/dev",
        "/proc",
        "/run",
        "/var",
        "/home",
    ]
    found = probes.run(box, WRITE, PLACES=places)
    assert {word for words in found.values() for word in words} <= {"EROFS", "EACCES", "EPERM", "ENOENT"}
    found = probes.run(box, OVERWRITE, PATHS=["/usr/bin/env", "/etc/passwd", "/etc/hosts", "/etc/ld.so.cache", "/bin/sh"])
    assert {word for words in found.values() for word in words} <= {"EROFS", "EACCES", "EPERM"}
    found = probes.run(box, WRITE, PLACES=["/tmp", "/dev/shm", "/home/user", "/workspace"])
    assert {word for words in found.values() for word in words} == {"ok"}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory of the host that anybody may write to: only the mount can forbid it."""
    place = tmp_path / "shared"
    place.mkdir()
    (place / "file").write_text("canary")
    for path in (tmp_path, place, place / "file"):
        path.chmod(0o777)
    return place


REMOUNT = """
flags = {"MS_REMOUNT": 32, "MS_REMOUNT|MS_BIND": 32 | 4096, "MS_REMOUNT|MS_BIND high": 1 << 40 | 32 | 4096}
for name, flag in flags.items():
    out[name] = call(NR["mount"], b"none", b"/mnt/shared", b"", flag, 0)
out["umount"] = call(NR["umount2"], b"/mnt/shared", 2)
attributes = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
out["mount_setattr"] = call(NR["mount_setattr"], -100, b"/mnt/shared", 0, attributes, 32)
"""


@pytest.mark.parametrize("as_workspace", [True, False])
def test_a_read_only_mount_stays_read_only(make: Any, probes: Any, shared: Path, as_workspace: bool) -> None:
    """A read-only workspace or mount refuses every write, also after attempts to remount or uncover it."""
    box = (
        make(workspace=Workspace(str(shared), mode="ro")) if as_workspace else make(mounts=[Mount(str(shared), "/mnt/shared")])
    )
    place = "/workspace" if as_workspace else "/mnt/shared"
    if not as_workspace:
        assert set(probes.run(box, REMOUNT).values()) == {"EPERM", "ENOSYS"}
    found = probes.run(box, WRITE + OVERWRITE, PLACES=[place], PATHS=[f"{place}/file"])
    assert {word for words in found.values() for word in words} <= {"EROFS", "EACCES", "EPERM", "EBUSY"}
    assert (shared / "file").read_text() == "canary"
    assert [path.name for path in shared.iterdir()] == ["file"]


def writable(plan: list[Record], target: str) -> list[Record]:
    return [
        dataclasses.replace(record, attributes=record.attributes & ~RDONLY)
        if isinstance(record, Bind) and record.target == target
        else record
        for record in plan
    ]


def test_each_layer_alone_keeps_a_mount_read_only(make: Any, probes: Any, shared: Path) -> None:
    """Without the mount's flag Landlock refuses, without Landlock the mount does; without both the file is opened."""
    probe = "out['w'] = opened('/mnt/shared/file', os.O_WRONLY)"
    options = {"mounts": [Mount(str(shared), "/mnt/shared")]}
    without_flag = {"edit": lambda plan: writable(plan, "mnt/shared")}
    assert probes.run(make(**options, **without_flag), probe)["w"] == "EACCES"
    assert probes.run(make(**options, waive={"landlock"}), probe)["w"] == "EROFS"
    assert probes.run(make(**options, **without_flag, waive={"landlock"}), probe)["w"] == "ok"


DEVICES = """
def walk(top):
    for entry in os.scandir(top):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            yield entry.path
        elif stat.S_ISDIR(mode):
            yield from walk(entry.path)
out["nodes"] = sorted(walk("/dev"))
out["top"] = sorted(os.listdir("/dev"))
wanted = ["mem", "kmem", "port", "kmsg", "kvm", "fuse", "vsock", "net/tun", "loop-control", "mapper/control", "uinput", "sda", "vda",
          "nvme0n1", "hwrng", "rtc0", "ttyS0", "console", "snapshot", "userfaultfd", "vhost-net", "autofs", "cpu_dma_latency"]
out["others"] = sorted({opened("/dev/" + name) for name in wanted})
os.chdir("/tmp")
for kind, name in ((stat.S_IFCHR, "character"), (stat.S_IFBLK, "block")):
    out[name] = [attempt(os.mknod, name, kind | 0o666, os.makedev(1, 1)), attempt(os.mknod, name, kind, os.makedev(7, 0)),
                 attempt(os.mknod, "/dev/" + name, kind, os.makedev(1, 1))]
out["null"] = [opened("/dev/null", os.O_RDWR), attempt(os.chmod, "/dev/null", 0o600), attempt(os.chown, "/dev/null", 1000, 1000)]
out["fifo"] = attempt(os.mknod, "fifo", stat.S_IFIFO | 0o600)
"""


def test_devices(make: Any, probes: Any) -> None:
    """/dev holds the harmless devices, a terminal multiplexer of its own and links; no other node is there or can be made."""
    found = probes.run(make(), DEVICES)
    harmless = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts/ptmx")}
    assert set(found["nodes"]) <= harmless
    assert {"/dev/null", "/dev/urandom"} <= set(found["nodes"])
    assert set(found["top"]) <= {"null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm", "fd", "stdin", "stdout",
                                 "stderr"}  # fmt: skip
    assert found["others"] == ["ENOENT"]
    assert set(found["character"]) | set(found["block"]) <= {"EPERM", "EACCES", "EROFS"}
    assert found["null"][0] == "ok"
    assert set(found["null"][1:]) <= {"EPERM", "EACCES", "EROFS"}
    assert found["fifo"] == "ok"
    mutant = make(waive={"landlock"}, filter=probes.allow_everything)
    assert "EPERM" in probes.run(mutant, DEVICES)["character"], "capabilities and nodev are a layer of their own"


CONTROL = """
names = ["sysrq-trigger", "sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/kernel/hostname", "sys/vm/overcommit_memory",
         "sys/vm/drop_caches", "sys/fs/binfmt_misc/register", "sys/net/ipv4/ip_forward", "sys/user/max_user_namespaces",
         "sys/kernel/ns_last_pid", "sys/kernel/pid_max", "1/oom_score_adj", "1/uid_map", "1/setgroups", "self/uid_map",
         "self/gid_map", "self/setgroups", "self/attr/current", "self/mem", "self/timerslack_ns", "irq/default_smp_affinity",
         "self/coredump_filter", "self/oom_score_adj", "self/clear_refs"]
for name in names:
    out[name] = opened("/proc/" + name, os.O_WRONLY)
count = 0
for top, _, files in os.walk("/proc/sys"):
    for name in files:
        path = os.path.join(top, name)
        if opened(path, os.O_WRONLY) == "ok":
            out[path] = "ok"
        count += 1
out["count"] = count
out["sys"] = opened("/sys/kernel/uevent_helper", os.O_WRONLY)
"""


def test_control_files_of_the_kernel(make: Any, probes: Any) -> None:
    """No file of /proc can be opened for writing, not one of /proc/sys; /sys is not there."""
    found = probes.run(make(), CONTROL)
    assert found.pop("count") > 100
    assert set(found.values()) <= {"EACCES", "EROFS", "EPERM", "ENOENT"}
    mutant = probes.run(make(waive={"landlock"}), CONTROL)
    assert mutant["self/coredump_filter"] == "ok"
    # Open to all by its mode, of the sandbox's own pid namespace, and a write needs a capability.
    assert mutant.pop("/proc/sys/kernel/ns_last_pid", "ok") == "ok"
    del mutant["sys/kernel/ns_last_pid"]
    dangerous = {name: word for name, word in mutant.items() if name.startswith(("sys", "1/", "/proc/sys", "irq"))}
    assert set(dangerous.values()) <= {"EACCES", "EROFS", "EPERM", "ENOENT"}


def test_what_proc_tells_about_the_host(make: Any, probes: Any) -> None:
    """Files of /proc with kernel addresses, keys, interrupts, modules and the boot line are empty or closed."""
    names = ["kallsyms", "keys", "key-users", "interrupts", "modules", "kcore", "kmsg", "timer_list", "sched_debug", "iomem",
             "latency_stats", "vmallocinfo", "slabinfo", "pagetypeinfo", "cmdline"]  # fmt: skip
    probe = "out.update({name: content('/proc/' + name) for name in NAMES})\nout['control'] = content('/proc/version')"
    found = probes.run(make(), probe, NAMES=names)
    assert "Linux" in found.pop("control")
    addresses = found.pop("iomem")
    assert all(line.split("-")[0].strip("0 ") == "" for line in addresses.splitlines() if "-" in line) or addresses == "EACCES"
    assert set(found.values()) <= {"", "ENOENT", "EACCES", "EPERM"}

    def unmasked(plan: list[Record]) -> list[Record]:
        return [record for record in plan if not (isinstance(record, Bind) and record.target.startswith("proc/"))]

    shown = probes.run(make(edit=unmasked), probe, NAMES=names)
    assert shown["cmdline"] == Path("/proc/cmdline").read_text()


def test_no_host_path_in_a_fresh_mount_table(make: Any, probes: Any) -> None:
    """The mount table names the sandbox's own mounts only: the host's root is detached, not hidden."""
    found = probes.run(make(), "out['points'] = [line.split()[4] for line in open('/proc/self/mountinfo')]")["points"]
    assert "/" in found
    tops = {point.split("/")[1] for point in found}
    assert tops <= {
        "",
        "usr",
        "bin",
        "sbin",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "etc",
        "dev",
        "tmp",
        "home",
        "proc",
        "workspace",
    }
    assert len(found) < 60
