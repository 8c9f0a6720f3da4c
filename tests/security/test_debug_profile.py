"""What the `debug` profile does not give: commands may trace each other, and nothing of the helper, and not past the filter."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Any

import pytest

from isandbox.sync import create_sandbox

pytestmark = pytest.mark.native

# A tracer's tools, and a victim: a sleeping child of the probe itself, or the first process with such a command line.
TOOLS = r"""
import ctypes.util
libc.ptrace.restype = ctypes.c_long
TRACEME, PEEKTEXT, PEEKUSR, POKEUSR, CONT, ATTACH, DETACH, SYSCALL = 0, 1, 3, 6, 7, 16, 17, 24
SETOPTIONS, SEIZE, INTERRUPT = 0x4200, 0x4206, 0x4207

def trace(request, pid, address=0, data=0):
    ctypes.set_errno(0)
    result = libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(address), ctypes.c_void_p(data))
    return "ok" if not ctypes.get_errno() else word(ctypes.get_errno())

def read_memory(pid, address, length):
    buffer = ctypes.create_string_buffer(length)
    local = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), length)
    remote = (ctypes.c_uint64 * 2)(address, length)
    return call(NR["process_vm_readv"], pid, local, 1, remote, 1, 0), buffer.raw

def field(pid, name):
    for line in open("/proc/%d/status" % pid):
        if line.startswith(name + ":"):
            return int(line.split()[1])
"""

ATTACK = (
    TOOLS
    + r"""
def attack(pid):
    answers = {"attach": trace(ATTACH, pid), "seize": trace(SEIZE, pid), "seize all": trace(SEIZE, pid, 0, 0xFF),
               "interrupt": trace(INTERRUPT, pid), "peek": trace(PEEKTEXT, pid, 0x1000), "detach": trace(DETACH, pid),
               "read": read_memory(pid, 0x1000, 8)[0], "write": call(NR["process_vm_writev"], pid, None, 0, None, 0, 0),
               "descriptor": call(NR["pidfd_getfd"], os.pidfd_open(pid), 3, 0), "compare": call(NR["kcmp"], pid, pid, 0, 0, 0)}
    for name in ("mem", "maps", "environ", "auxv", "syscall", "stack", "io", "pagemap"):
        answers["/proc " + name] = opened("/proc/%d/%s" % (pid, name))
    answers["/proc fd"] = attempt(os.listdir, "/proc/%d/fd" % pid)
    answers["/proc fd 3"] = opened("/proc/%d/fd/3" % pid, os.O_RDWR)
    for link in ("exe", "cwd", "root", "ns/user"):
        answers["/proc " + link] = attempt(os.readlink, "/proc/%d/%s" % (pid, link))
    return answers

for name, pid in (("first", 1), ("keeper", os.getppid())):
    for thread in (int(t) for t in os.listdir("/proc/%d/task" % pid)):
        out[name] = json.loads(in_child(lambda: json.dumps(attack(thread))))

secret = ctypes.create_string_buffer(b"canary")
child = os.fork()
if child == 0:
    time.sleep(30)
    os._exit(0)
out["own child"] = {"seize": trace(SEIZE, child), "mem": opened("/proc/%d/mem" % child),
                    "read": read_memory(child, ctypes.addressof(secret), 6)[1].decode()}
os.kill(child, 9)
"""
)


@pytest.fixture(scope="module")
def debug(sandbox_tmp: Any) -> Iterator[Any]:
    with create_sandbox("seccomp", profile="debug") as sandbox:
        yield sandbox


@pytest.mark.parametrize("layers", ["all", "without landlock"])
def test_nobody_traces_the_first_process_or_a_keeper(make: Any, probes: Any, layers: str) -> None:
    """Attaching to them, reading or writing their memory, taking a descriptor, opening their files: refused; a child's: not."""
    found = probes.run(make(profile="debug", waive=set() if layers == "all" else {"landlock"}), ATTACK)
    assert found.pop("own child") == {"seize": "ok", "mem": "ok", "read": "canary"}
    for answers in found.values():
        assert answers.pop("interrupt") == "ESRCH"  # nobody traces it
        assert answers.pop("peek") == answers.pop("detach") == "ESRCH"
        assert set(answers.values()) <= {"EPERM", "EACCES"}, answers


NEIGHBOUR = (
    TOOLS
    + r"""
for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
    if content("/proc/%d/cmdline" % pid) == COMMAND:
        out["seize"], out["mem"], out["descriptors"] = trace(SEIZE, pid), opened("/proc/%d/mem" % pid), sorted(os.listdir("/proc/%d/fd" % pid))
        out["uid"] = [field(pid, "Uid"), field(os.getpid(), "Uid"), field(1, "Uid")]
"""
)


def test_another_command_can_be_traced_and_holds_nothing(debug: Any, probes: Any) -> None:
    """Commands of one sandbox can trace each other, and what they find is a process with three descriptors and their own uid."""
    with debug.start(["sleep", "61"], timeout=20) as sleeper:
        found = probes.run(debug, NEIGHBOUR, COMMAND="sleep\x0061\x00")
        sleeper.kill()
    assert (found["seize"], found["mem"], found["descriptors"]) == ("ok", "ok", ["0", "1", "2"])
    assert found["uid"][0] == found["uid"][1]


TRACED_BY_KEEPER = (
    TOOLS
    + r"""
out["asked"] = trace(TRACEME, 0)
out["before"] = field(os.getpid(), "TracerPid") == os.getppid()
signal.signal(signal.SIGUSR1, lambda *_: out.update(handled=True))
os.kill(os.getpid(), signal.SIGUSR1)
end = time.monotonic() + 10
while field(os.getpid(), "TracerPid") and time.monotonic() < end:
    time.sleep(0.01)
out["after"] = field(os.getpid(), "TracerPid")
out["again"] = [in_child(lambda: trace(TRACEME, 0)), trace(TRACEME, 0)]
"""
)


def test_a_keeper_does_not_trace(debug: Any, probes: Any) -> None:
    """A command that makes its keeper its tracer is let go at its first stop, gets its signal, and ends with its own exit code."""
    found = probes.run(debug, TRACED_BY_KEEPER)
    assert found == {"asked": "ok", "before": True, "handled": True, "after": 0, "again": ["ok", "ok"]}


@pytest.mark.parametrize(
    ("ending", "code", "signal"),
    [
        ("os.execv('/bin/sh', ['sh', '-c', 'echo out; exit 7'])", 7, None),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139, 11),
        ("print('out', flush=True); os._exit(5)", 5, None),
    ],
    ids=["exec", "signal", "exit"],
)
def test_a_command_cannot_forge_its_end_by_stopping_for_its_keeper(
    debug: Any, ending: str, code: int, signal: int | None
) -> None:
    """What a process that asked to be traced does in the end is reported, not that it stopped before."""
    body = f"import ctypes, os, signal\nctypes.CDLL(None).ptrace(0, 0, None, None)\n{ending}"
    result = debug.exec(["python3", "-I", "-c", body], timeout=20)
    assert (result.exit_code, result.signal, result.fault) == (code, signal, None)
    assert result.stdout == ("out\n" if signal is None else "")


def test_an_adopted_process_that_stops_for_its_keeper_does_not_end_the_command(debug: Any, probes: Any) -> None:
    """A grandchild that outlives its parent and asks to be traced is neither taken for dead nor in the way of the end."""
    body = (
        "import ctypes, os, signal, time\n"
        "if os.fork() == 0:\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        "    keeper = os.getppid()\n"
        "    time.sleep(0.2)\n"
        "    ctypes.CDLL(None).ptrace(0, 0, None, None)\n"
        "    os.kill(os.getpid(), signal.SIGTRAP)\n"
        "    print('went on', flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "time.sleep(0.6)\n"
        "os._exit(3)\n"
    )
    result = debug.exec(["python3", "-I", "-c", body], timeout=20)
    assert (result.exit_code, result.fault, result.stdout) == (3, None, "went on\n")


HOLDER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
end = time.monotonic() + 15
while time.monotonic() < end:
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % name) as file:
                command = file.read().replace(chr(0), " ")
            threads = sorted(map(int, os.listdir("/proc/%s/task" % name)))
        except OSError:
            continue
        if command.startswith(sys.argv[1]) and len(threads) == int(sys.argv[2]):
            print("held", libc.ptrace(0x4206, ctypes.c_long(threads[-1]), None, ctypes.c_void_p(int(sys.argv[3]))), flush=True)
            time.sleep(60)
    time.sleep(0.01)
"""
THREADED = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); time.sleep(60)"


TRACEEXIT = 0x40


@pytest.mark.parametrize("options", [0, TRACEEXIT], ids=["reaping", "exit event"])
@pytest.mark.parametrize(
    ("victim", "threads"), [(["sleep", "62.5"], 1), (["python3", "-I", "-c", THREADED], 2)], ids=["process", "thread"]
)
def test_a_tracer_of_another_command_does_not_keep_this_one_from_ending(
    debug: Any, victim: list[str], threads: int, options: int
) -> None:
    """What a neighbour traces, and does not reap or let go at its exit, is freed by the neighbour's end; the sandbox lives on."""
    prefix = " ".join(victim[:3])
    command = ["python3", "-I", "-c", HOLDER, prefix, str(threads), str(options)]
    with debug.start(command, timeout=30) as holder:
        result = debug.exec(victim, timeout=1)
        assert (result.fault, debug.exec("echo alive").stdout) == ("timeout", "alive\n")
        ended = holder.wait()
    assert (ended.stdout, ended.signal) == ("held 0\n", 9)


REWRITE = (
    TOOLS
    + r"""
import struct
ORIG_RAX, RAX, RDI = 120, 80, 112
TRACESYSGOOD, TRACESECCOMP = 1, 0x80

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]

def own_filter():
    "Every getppid stops for the tracer (SECCOMP_RET_TRACE), all else is allowed."
    code = b"".join(struct.pack("<HBBI", *line) for line in
                    ((0x20, 0, 0, 0), (0x15, 0, 1, NR["getppid"]), (6, 0, 0, 0x7FF00000), (6, 0, 0, 0x7FFF0000)))
    return libc.prctl(22, 2, ctypes.byref(Program(len(code) // 8, code)), 0, 0)

def register(child, offset):
    return libc.ptrace(ctypes.c_long(PEEKUSR), ctypes.c_long(child), ctypes.c_void_p(offset), None)

def changed(number, argument):
    "The result of a getppid whose number and first argument a tracer has changed before it is done."
    child = os.fork()
    if child == 0:
        trace(TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        if WAY == "filter" and own_filter():
            os._exit(1)
        libc.syscall(ctypes.c_long(NR["getppid"]))
        os._exit(0)
    os.waitpid(child, 0)
    trace(SETOPTIONS, child, 0, TRACESYSGOOD | TRACESECCOMP)
    wanted = signal.SIGTRAP | 0x80 if WAY == "entry" else signal.SIGTRAP | 7 << 8  # PTRACE_EVENT_SECCOMP
    for _ in range(2000):
        trace(SYSCALL if WAY == "entry" else CONT, child)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSTOPPED(status):
            return "ended"
        if status >> 8 == wanted and register(child, ORIG_RAX) == NR["getppid"]:
            break
    trace(POKEUSR, child, ORIG_RAX, number)
    trace(POKEUSR, child, RDI, argument)
    trace(SYSCALL, child)
    os.waitpid(child, 0)
    result = register(child, RAX)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return result if result >= 0 else word(-result)

out["control"] = changed(NR["getpid"], 0) > 2
out["refused"] = {name: changed(NR[name], argument) for name, argument in
                  (("unshare", 0x10000000), ("mount", 0), ("clone3", 0), ("io_uring_setup", 0), ("personality", 0x400000), ("socket", 38))}
out["x32"] = changed(0x40000000 | NR["getpid"], 0)
"""
)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the registers are x86-64's")
@pytest.mark.parametrize("way", ["entry", "filter"])
def test_a_tracer_does_not_lead_past_the_filter(make: Any, debug: Any, probes: Any, way: str) -> None:
    """A call that a tracer changes, at its entry or when a filter of its own asks it, is filtered as what it has become."""
    found = probes.run(debug, REWRITE, WAY=way)
    assert found["control"] is True
    wanted = {"unshare": "EPERM", "mount": "EPERM", "personality": "EPERM", "socket": "EAFNOSUPPORT"}
    assert found["refused"] == {**wanted, "clone3": "ENOSYS", "io_uring_setup": "ENOSYS"}
    assert found["x32"] == "ENOSYS"
    marked = probes.run(make(profile="debug", filter=probes.marked), REWRITE, WAY=way)
    assert marked["refused"]["mount"] == probes.marked_word(1)
    assert marked["x32"] == probes.marked_word(38)


SUSPEND = (
    TOOLS
    + r"""
child = os.fork()
if child == 0:
    time.sleep(20)
    os._exit(0)
SUSPEND_SECCOMP = 1 << 21
out["seize"] = trace(SEIZE, child, 0, SUSPEND_SECCOMP)
out["control"] = trace(SEIZE, child, 0, 1)
trace(INTERRUPT, child)
os.waitpid(child, 0)
out["options"] = trace(SETOPTIONS, child, 0, SUSPEND_SECCOMP | 1)
out["filter"] = trace(0x420C, child)
out["emulation"] = trace(31, child)
os.kill(child, 9)
"""
)


def test_a_filter_cannot_be_suspended(make: Any, debug: Any, probes: Any) -> None:
    """The option that switches a tracee's filter off is refused by the filter, and without one by the kernel."""
    found = probes.run(debug, SUSPEND)
    assert found.pop("control") == "ok"
    assert set(found.values()) == {"EPERM"}
    bare = probes.run(make(filter=probes.allow_everything), SUSPEND)
    assert (bare["seize"], bare["options"]) == ("EPERM", "EPERM")


@pytest.mark.parametrize("profile", ["default", "strict"])
def test_other_profiles_do_not_trace_at_all(make: Any, probes: Any, profile: str) -> None:
    """ptrace and process_vm_readv are refused by the other profiles, by the filter itself."""
    body = TOOLS + "out['found'] = [trace(TRACEME, 0), trace(SEIZE, os.getppid()), read_memory(os.getpid(), 0, 0)[0]]"
    assert set(probes.run(make(profile=profile), body)["found"]) == {"EPERM"}
    assert set(probes.run(make(profile=profile, filter=probes.marked), body)["found"]) == {probes.marked_word(1)}
