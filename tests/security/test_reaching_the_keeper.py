"""Writing to the helper's processes and tracing them: what stops it is more than one layer, and each is tried alone."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytestmark = pytest.mark.native

WRITES = """
# What the kernel would take from whoever may write there: nothing that changes a process of one's own.
files = {"mem": None, "oom_score_adj": b"0", "oom_adj": None, "comm": b"attacked", "clear_refs": b"1", "timerslack_ns": b"50000",
         "coredump_filter": b"33", "loginuid": None, "sched": b"0", "autogroup": b"19", "uid_map": b"0 0 1", "gid_map": b"0 0 1",
         "setgroups": b"deny", "projid_map": b"0 0 1", "attr/exec": b"x", "attr/current": b"x", "limits": None, "timens_offsets": None}

def written(path, content):
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError as error:
        return word(error.errno)
    try:
        return attempt(os.write, fd, content) if content else "ok"
    finally:
        os.close(fd)

keeper = os.getppid()
for pid in (1, keeper):
    for name, content in files.items():
        out["%s of %d" % (name, pid != 1)] = written("/proc/%d/%s" % (pid, name), content)
out["named"] = [open("/proc/%d/comm" % pid).read().strip() for pid in (1, keeper)]
out["own"] = [written("/proc/self/" + name, files[name]) for name in ("mem", "comm", "oom_score_adj", "coredump_filter")]
"""


@pytest.mark.parametrize("layers", ["all", "without landlock"])
def test_nothing_of_the_helper_can_be_written(make: Any, probes: Any, layers: str) -> None:
    """No file in /proc of the first process or of a keeper can be written to, whether Landlock is there or not."""
    options = {} if layers == "all" else {"waive": {"landlock"}}
    found = probes.run(make(**options), WRITES)
    assert found.pop("named") == ["isandbox-helper", "isandbox-keeper"]
    own = found.pop("own")
    assert {name for name, answer in found.items() if answer == "ok"} == set()
    assert set(found.values()) <= {"EACCES", "EPERM", "ENOENT", "EROFS", "EINVAL"}
    if layers != "all":
        assert set(own) == {"ok"}


TRACE = """
ATTACH, DETACH, SEIZE = 16, 17, 0x4206
keeper = os.getppid()

def trace(pid):
    return {"attach": call(NR["ptrace"], ATTACH, pid, 0, 0), "seize": call(NR["ptrace"], SEIZE, pid, 0, 0),
            "read": call(NR["process_vm_readv"], pid, vector, 1, vector, 1, 0),
            "write": call(NR["process_vm_writev"], pid, vector, 1, vector, 1, 0),
            "descriptor": call(NR["pidfd_getfd"], os.pidfd_open(pid), 3, 0),
            "limits": call(NR["kcmp"], pid, pid, 0, 0, 0)}

buffer = ctypes.create_string_buffer(8)
vector = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
for name, pid in (("first", 1), ("keeper", keeper)):
    out[name] = in_child(lambda: sorted(set(trace(pid).values())))
child = os.fork()
if child == 0:
    time.sleep(20)
    os._exit(0)
out["own child"] = call(NR["ptrace"], SEIZE, child, 0, 0)
out["own memory"] = call(NR["process_vm_readv"], os.getpid(), vector, 1, vector, 1, 0)
os.kill(child, 9)
"""


def test_nobody_traces_the_helper_even_without_the_filter(make: Any, probes: Any) -> None:
    """The filter refuses to trace at all; without it the helper's processes refuse, which are not dumpable, and others do not."""
    found = probes.run(make(), TRACE)
    assert set(found.values()) == {"['EPERM']", "EPERM"}
    found = probes.run(make(filter=probes.allow_everything), TRACE)
    assert (found["first"], found["keeper"]) == ("['EPERM']", "['EPERM']")
    assert found["own memory"] == "ok"
    if not os.path.exists("/proc/sys/kernel/yama/ptrace_scope"):
        assert found["own child"] == "ok"
