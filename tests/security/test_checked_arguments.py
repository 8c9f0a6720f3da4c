"""Calls that are allowed with some arguments only: sockets, terminals, set-id bits, limits of others, the 32-bit entry."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from isandbox import Quotas, Workspace
from isandbox.sync import create_sandbox
from isandbox_backends.seccomp import backend, layers

pytestmark = pytest.mark.native

SOCKETS = """
def create(family, kind, protocol=0):
    def attack():
        try:
            socket.socket(family, kind, protocol).close()
        except OSError as error:
            return word(error.errno)
        return "ok"
    return attack()

HIGH = 1 << 32
out["control"] = [create(f, k) for f, k in ((1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (10, 1), (16, 3))]
out["families"] = {str(f): create(f, 2) for f in range(0, 47) if f not in (1, 2, 10, 16)}
out["raw"] = [create(2, 3, 1), create(10, 3, 58), create(2, 10), create(1, 3), create(2, 3 | 0o2000000, 255)]
out["netlink"] = {str(p): create(16, 3, p) for p in range(1, 23)}
out["protocols"] = {"%d %d %d" % (f, k, p): create(f, k, p) for f in (2, 10) for k, p in ((1, 132), (5, 132), (1, 262), (1, 256), (6, 33),
                    (2, 136), (2, 115), (4, 0))}
out["used"] = [create(f, k, p) for f in (2, 10) for k, p in ((1, 6), (2, 17))]
def pair(family, kind):
    made = (ctypes.c_int * 2)()
    return call(NR["socketpair"], family, kind, 0, made)
out["pairs"] = {str(f): pair(f, k) for f in range(0, 47) if f != 1 for k in (1, 2, 5)}
out["unix pairs"] = [pair(1, k) for k in (1, 2, 5)]
out["high pair"] = pair(HIGH | 30, 1)
out["high family"] = call(NR["socket"], HIGH | 38, 5, 0)
out["high raw"] = call(NR["socket"], 2, HIGH | 3, 1)
"""


def test_only_harmless_sockets(make: Any, probes: Any) -> None:
    """UNIX, TCP, UDP, ping and route netlink sockets and UNIX pairs can be made; no other family or protocol, nothing raw."""
    found = probes.run(make(), SOCKETS)
    assert set(found["control"]) == {"ok"}
    assert set(found["families"].values()) == {"EAFNOSUPPORT"}
    assert set(found["raw"]) == {"EPERM"}
    assert set(found["netlink"].values()) == {"EAFNOSUPPORT"}
    assert (found["high family"], found["high raw"]) == ("EAFNOSUPPORT", "EPERM")
    odd_types = {name: found["protocols"].pop(name) for name in list(found["protocols"]) if name.split()[1] in "46"}
    assert set(odd_types.values()) == {"EPERM"}
    assert set(found["protocols"].values()) == {"EPROTONOSUPPORT"}
    assert set(found["used"]) == set(found["unix pairs"]) == {"ok"}
    assert {*found["pairs"].values(), found["high pair"]} == {"EAFNOSUPPORT"}


def test_without_the_filter_other_sockets_can_be_made(make: Any, probes: Any) -> None:
    """The attacks above are some: with the filter off other netlink protocols come through."""
    found = probes.run(make(filter=probes.allow_everything), SOCKETS)
    assert "ok" in found["netlink"].values()
    marked = probes.run(make(filter=probes.marked), SOCKETS)
    assert set(marked["families"].values()) == {probes.marked_word(97)}
    assert set(marked["raw"]) == {probes.marked_word(1)}
    assert {*marked["pairs"].values(), marked["high pair"]} == {probes.marked_word(97)}
    assert probes.marked_word(93) in marked["protocols"].values()


TERMINAL = """
import pty, termios
master, slave = pty.openpty()
os.setsid() if os.getpid() != os.getsid(0) else None
HIGH = 1 << 32
requests = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541c, "TIOCCONS": 0x541d, "TIOCSETD": 0x5423}
for name, request in requests.items():
    for extra in (0, HIGH, 0xdeadbeef << 32):
        out["%s %x" % (name, extra)] = call(NR["ioctl"], slave, request | extra, (ctypes.c_int * 1)(0x41))
out["control"] = attempt(termios.tcgetattr, slave)
out["ldisc"] = call(NR["ioctl"], slave, 0x5424, (ctypes.c_int * 1)())
"""


def test_no_input_can_be_typed_into_a_terminal(make: Any, probes: Any) -> None:
    """TIOCSTI and its kin are refused on a terminal of the sandbox's own, with any bits above the 32 the kernel reads."""
    found = probes.run(make(), TERMINAL)
    assert (found.pop("control"), found.pop("ldisc")) == ("ok", "ok")
    assert set(found.values()) == {"EPERM"}
    marked = probes.run(make(filter=probes.marked), TERMINAL)
    assert set(marked.values()) == {"ok", probes.marked_word(1)}


SETID = """
import shutil, struct
directory = DIRECTORY + "/bits"
os.makedirs(directory, exist_ok=True)
os.chdir(directory)
shutil.copy("/bin/true", "program")
here = os.open(".", os.O_RDONLY)
program = os.open("program", os.O_RDONLY)
HIGH = 1 << 32
for bits in (0o4755, 0o2755, 0o6000, 0o4755 | HIGH):
    ways = {
        "chmod": [b"program", bits], "fchmod": [program, bits], "fchmodat": [here, b"program", bits],
        "fchmodat2": [here, b"program", bits, 0], "creat": [b"made", bits], "open": [b"made", os.O_CREAT | os.O_WRONLY, bits],
        "openat": [here, b"made", os.O_CREAT | os.O_WRONLY, bits], "mknod": [b"node", bits | stat.S_IFREG, 0],
        "mknodat": [here, b"node", bits | stat.S_IFREG, 0], "openat2": [here, b"made", 0, 0],
    }
    for name, arguments in ways.items():
        if name in NR:
            out["%s %o" % (name, bits)] = call(NR[name], *arguments)
out["tmpfile"] = call(NR["openat"], -100, b".", 0o20000000 | os.O_DIRECTORY | os.O_WRONLY, 0o4777)
out["acl"] = attempt(os.setxattr, "program", "security.capability", struct.pack("<5I", 0x02000001, 1 << 21, 0, 0, 0))
out["control"] = [call(NR["fchmod"], program, 0o755), call(NR["fchmod"], program, 0o1777)]
os.mkdir("group")
out["found"] = [entry.name for entry in os.scandir(".") if entry.stat().st_mode & 0o6000]
"""


def test_no_program_can_be_made_set_id(make: Any, probes: Any, tmp_path: Path) -> None:
    """Set-user-id and set-group-id bits cannot be set by any call, in a mounted workspace and in scratch space alike."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    box = make(workspace=Workspace(str(workspace)))
    for directory in ("/workspace", "/tmp"):
        found = probes.run(box, SETID, DIRECTORY=directory)
        assert (found.pop("control"), found.pop("found")) == (["ok", "ok"], [])
        refused = {name: found.pop(name) for name in list(found) if name.startswith("openat2")}
        assert set(refused.values()) == {"ENOSYS"}
        assert set(found.values()) <= {"EPERM", "EOPNOTSUPP"}
    modes = [path.lstat().st_mode for path in workspace.rglob("*")]
    assert modes
    assert not any(stat.S_IMODE(mode) & 0o6000 for mode in modes)


def test_without_the_filter_a_set_id_program_can_be_made(make: Any, probes: Any) -> None:
    """The attack above is one: with the filter off the bits are set, in scratch space that goes with the sandbox."""
    found = probes.run(make(filter=probes.allow_everything), SETID, DIRECTORY="/tmp")
    assert found["fchmod 4755"] == "ok"
    assert found["found"]


STATUS = "grep -E '^(Uid|Gid|Cap|NoNewPrivs)' /proc/self/status"


def test_a_set_user_id_program_of_the_host_gives_nothing(make: Any, tmp_path: Path) -> None:
    """A program with the bits set that the host shows inside runs with the command's own ids and no capability."""
    tool = tmp_path / "bin"
    tool.mkdir()
    program = tool / "tool"
    shutil.copy("/bin/grep", program)
    program.chmod(0o6755)
    box = make(workspace=Workspace(str(tool), mode="ro"))
    plain = box.exec(STATUS).stdout
    raised = box.exec("/workspace/tool -E '^(Uid|Gid|Cap|NoNewPrivs)' /proc/self/status").stdout
    assert "NoNewPrivs:\t1" in plain
    assert plain == raised
    assert box.exec("stat -c %a /workspace/tool").stdout == "6755\n"


LIMITS = """
limits = (ctypes.c_uint64 * 2)(1, 1)
pointer = ctypes.addressof(limits)
low_is_null = pointer & ~0xffffffff
out["first"] = call(NR["prlimit64"], 1, 7, limits, 0)
out["parent"] = call(NR["prlimit64"], os.getppid(), 7, limits, 0)
out["half a pointer"] = call(NR["prlimit64"], 1, 7, low_is_null, 0)
out["self"] = call(NR["prlimit64"], 0, 7, 0, limits)
out["read of own"] = call(NR["prlimit64"], os.getpid(), 7, 0, limits)
"""


def test_limits_of_other_processes_are_out_of_reach(make: Any, probes: Any) -> None:
    """prlimit sets limits of the caller itself, never of the first process or a keeper; a pointer is compared whole."""
    found = probes.run(make(), LIMITS)
    assert found == {"first": "EPERM", "parent": "EPERM", "half a pointer": "EPERM", "self": "ok", "read of own": "ok"}
    marked = probes.run(make(filter=probes.marked), LIMITS)
    assert {marked[name] for name in ("first", "parent", "half a pointer")} == {probes.marked_word(1)}
    assert (marked["self"], marked["read of own"]) == ("ok", "ok")


PRIORITIES = """
zero = (ctypes.c_int * 12)()
zero[0] = 48  # the size of a struct sched_attr: nothing but that, so SCHED_OTHER at nice 0
IDLE = (ctypes.c_int * 12)()
everybody = (ctypes.c_ubyte * 128)(*[255] * 128)
HIGH = 1 << 32
for first in (1, HIGH | 1):
    out["nice %x" % first] = call(NR["setpriority"], 0, first, 5)
    out["nice of the group %x" % first] = call(NR["setpriority"], 1, first, 5)
    out["policy %x" % first] = call(NR["sched_setscheduler"], first, 5, IDLE)
    out["parameters %x" % first] = call(NR["sched_setparam"], first, IDLE)
    out["attributes %x" % first] = call(NR["sched_setattr"], first, zero, 0)
    out["affinity %x" % first] = call(NR["sched_setaffinity"], first, 128, everybody)
    out["disk %x" % first] = call(NR["ioprio_set"], 1, first, 3 << 13)
    out["disk of the group %x" % first] = call(NR["ioprio_set"], 2, first, 3 << 13)
out["nice of the user"] = call(NR["setpriority"], 2, 0, 5)
out["nice of the user, high"] = call(NR["setpriority"], HIGH | 2, 0, 5)
out["disk of the user"] = call(NR["ioprio_set"], 3, os.getuid(), 3 << 13)
out["own"] = [in_child(lambda: call(NR["setpriority"], 0, 0, 5)), in_child(lambda: call(NR["sched_setscheduler"], os.getpid(), 5, IDLE)),
              call(NR["sched_setaffinity"], os.getpid(), 128, everybody), in_child(lambda: call(NR["ioprio_set"], 1, 0, 3 << 13))]
"""


def test_the_first_process_cannot_be_starved(make: Any, probes: Any) -> None:
    """Nobody inside lowers the priority of the process that ends commands at their time-out; one's own can be set."""
    found = probes.run(make(), PRIORITIES)
    assert set(found.pop("own")) == {"ok"}
    assert set(found.values()) == {"EPERM"}
    marked = probes.run(make(filter=probes.marked), PRIORITIES)
    assert set(marked.pop("own")) == {"ok"}
    assert set(marked.values()) == {probes.marked_word(1)}
    if os.geteuid() != 0:  # elsewhere commands have another uid than the first process
        assert "ok" in probes.run(make(filter=probes.allow_everything, ids="single"), PRIORITIES).values()


LEASE = """
import fcntl
out["lease"] = in_child(lambda: attempt(fcntl.fcntl, os.open("file", os.O_RDWR | os.O_CREAT, 0o644), 1024, 1))
out["high"] = in_child(lambda: call(NR["fcntl"], os.open("file", os.O_RDWR), 1 << 32 | 1024, 1))
out["lock"] = in_child(lambda: attempt(fcntl.lockf, os.open("file", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB))
"""


def test_nobody_takes_a_lease(make: Any, probes: Any, tmp_path: Path) -> None:
    """A file of a mounted workspace cannot be leased, which would hold up each open of it on the host; locks can be taken."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    options = {"workspace": Workspace(str(workspace))}
    assert probes.run(make(**options), LEASE) == {"lease": "EPERM", "high": "EPERM", "lock": "ok"}
    marked = probes.run(make(**options, filter=probes.marked), LEASE)
    assert (marked["lease"], marked["high"], marked["lock"]) == (probes.marked_word(1), probes.marked_word(1), "ok")
    assert probes.run(make(**options, filter=probes.allow_everything), LEASE)["lease"] == "ok"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU: there is no other to escape to")
def test_a_command_cannot_take_more_cpus(make: Any) -> None:
    """Under quotas.cpus a command and its children stay on the CPUs they were given; without it they may choose."""
    attack = ["python3", "-c", "import os\nos.sched_setaffinity(0, range(64))\nprint(len(os.sched_getaffinity(0)))"]
    result = make(quotas=Quotas(cpus=1)).exec(attack)
    assert "PermissionError" in result.stderr
    assert make(quotas=Quotas(cpus=1)).exec("nproc").stdout == "1\n"
    assert int(make().exec(attack).stdout) > 1


INT80 = """
#include <stdio.h>
int main (void)
{
  long r;
  __asm__ volatile ("int $0x80" : "=a"(r) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
  printf ("answered %d\\n", r > 0);
  return 0;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the 32-bit entry is x86-64's")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_32_bit_entry_kills(tmp_path: Path) -> None:
    """A call by int 0x80 has other numbers and would pass any filter by number: the process is killed."""
    (tmp_path / "int80.c").write_text(INT80)
    subprocess.run(["cc", "-O1", "-o", tmp_path / "int80", tmp_path / "int80.c"], check=True, timeout=60)
    answers = {}
    for mode in ("real", "open"):
        with pytest.MonkeyPatch.context() as patch:
            if mode == "open":
                patch.setattr(backend, "compile_filter", lambda *_, **__: b"\x06\0\0\0\0\0\xff\x7f")
                patch.setattr(backend, "verified", layers.told)  # it is meant to start
            with create_sandbox("seccomp", workspace=Workspace(str(tmp_path), mode="ro")) as sandbox:
                answers[mode] = sandbox.exec(["/workspace/int80"])
    assert (answers["real"].signal, answers["real"].stdout) == (31, "")
    if answers["open"].signal == 11:
        pytest.skip("this kernel has no 32-bit entry")
    assert answers["open"].stdout == "answered 1\n"
