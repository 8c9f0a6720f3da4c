"""Commands that attack whoever watches over them, in every way and through both interfaces.

What holds for each: the call returns, what it says is true, the sandbox is usable afterwards or reported lost, and nothing is
left alive.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from isandbox import ExecResult, Quotas, SandboxLostError
from isandbox_backends.seccomp.subordinate import Grant, find_grant

# Each through one interface as root and through the other as a user; through both as both with the full tests.
_OTHER = "blocking" if os.geteuid() == 0 else "async"
INTERFACES = [pytest.param(name, marks=[pytest.mark.full] * (name == _OTHER)) for name in ("async", "blocking")]
pytestmark = [pytest.mark.native, pytest.mark.parametrize("interface", INTERFACES)]

SPLIT = os.geteuid() == 0 or isinstance(find_grant(), Grant)
"""Where there are ids for it, commands have another uid than their keepers."""

SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGQUIT, signal.SIGSEGV)


@pytest.fixture
def box(interface: str, hostile: Any, sandbox_tmp: Any) -> Any:
    with hostile.target(interface, "seccomp") as opened:
        yield opened


def end(result: ExecResult | SandboxLostError) -> tuple[int, str | None]:
    assert isinstance(result, ExecResult), result
    return result.exit_code, result.fault


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("victim", ["1", "$PPID", "-1"])
def test_signals(box: Any, victim: str, number: int) -> None:
    """Pid 1 is immune; a keeper is where it has another uid, and else its murder, the one thing it feels, is told as such."""
    result = box.exec(f"kill -{int(number)} {victim}; echo sent $?; sleep 0.2; exit 7")
    assert isinstance(result, ExecResult)
    assert "llegal" not in result.stderr
    if number == signal.SIGKILL and victim != "1" and not SPLIT:
        assert end(result) == (137, "killed")
    else:
        assert end(result) == (7, None)
        refused = SPLIT and victim != "-1"  # kill (-1) succeeds also when there is nobody whom it may signal
        assert result.stdout == f"sent {int(refused)}\n", result.stderr
    assert box.usable()
    assert box.alive() == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name)
def test_a_storm_of_signals(box: Any, number: int) -> None:
    """While one command signals everything it can see, again and again, calls beside it return by their time-out and tell the
    truth: their own end, a death by that signal, a time-out, or a murdered keeper.
    """
    storm = f"""
import os, time
end = time.monotonic() + 2
while time.monotonic() < end:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                os.kill(int(name), {int(number)})
            except OSError:
                pass
"""
    attacker = box.start(["python3", "-c", storm])
    for _ in range(12):
        result = box.exec("exit 5", timeout=3)
        if isinstance(result, SandboxLostError):
            break
        assert (result.exit_code, result.fault) in {(5, None), (137, None), (137, "killed"), (137, "timeout")}
    box.wait(attacker)
    if box.usable():
        assert box.alive() == []


BOMBS = {
    "plain": "os.fork()",
    "sessions": "os.fork() or os.setsid()",
    "double": "os.fork() or os.fork() and os._exit(0)",
    "hopper": "os.getpid() != first and os.fork() and os._exit(0) or os.getpid() == first and os.fork()",
    "spawn": "os.posix_spawn('/bin/sleep', ['sleep', '20'], {}); os.getpid() == first and os.fork()",
    "threads": "_thread.start_new_thread(time.sleep, (20,))",
    "odd signals": "clone(next(odd))",
    "siblings": "clone(0x8000 | 17)",
}
BOMB = """
import ctypes, itertools, os, sys, _thread, time
first = os.getpid()
libc = ctypes.CDLL(None)
odd = itertools.cycle([0, 9, 10, 11, 19, 34, 64])
def clone(flags):
    return libc.syscall(ctypes.c_long(NUMBER), ctypes.c_long(flags), None, None, None, None)
end = time.monotonic() + 20
while time.monotonic() < end:
    try:
        STEP
    except (OSError, RuntimeError):
        pass
"""


def ended_by_timeout(box: Any, program: str) -> None:
    """The program is ended to its last process. A machine that is too busy for that loses the sandbox, and says so."""
    result = box.exec(["python3", "-c", program], timeout=0.7)
    if isinstance(result, SandboxLostError):
        assert not box.usable()
        return
    assert (result.exit_code, result.fault) == (137, "timeout")
    assert box.alive() == []
    assert box.usable()


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_bombs(box: Any, name: str) -> None:
    """A time-out ends a bomb of up to 256 processes, however they are made, to the last one."""
    number = "56" if os.uname().machine == "x86_64" else "220"
    ended_by_timeout(box, BOMB.replace("STEP", BOMBS[name]).replace("NUMBER", number))


@pytest.mark.parametrize("name", ["double", "siblings"])
def test_bombs_under_a_memory_quota(interface: str, hostile: Any, sandbox_tmp: Any, name: str) -> None:
    """The same where memory is held too, by a control group or the watcher, which look at the same processes."""
    number = "56" if os.uname().machine == "x86_64" else "220"
    with hostile.target(interface, "seccomp", quotas=Quotas(memory="2GiB", cpu_time=60, pids=256)) as box:
        ended_by_timeout(box, BOMB.replace("STEP", BOMBS[name]).replace("NUMBER", number))


SHELL_BOMB = 'n=0; while [ $n -lt 999999 ]; do n=$((n+1)); sh -c "$0" "$0" & sh -c "$0" "$0"; done'


def test_a_bomb_of_programs(box: Any) -> None:
    """Nor does one survive whose processes are all fresh programs, made by vfork."""
    program = (
        f"import os, time\nos.posix_spawn('/bin/sh', ['sh', '-c', {SHELL_BOMB!r}, {SHELL_BOMB!r}], os.environ)\ntime.sleep(20)"
    )
    ended_by_timeout(box, program)


def test_a_bomb_whose_first_process_is_gone(box: Any) -> None:
    """A command that ends and leaves a bomb behind is told as it ended, with what lingers; it goes with the sandbox."""
    number = "56" if os.uname().machine == "x86_64" else "220"
    bomb = BOMB.replace("STEP", BOMBS["double"]).replace("NUMBER", number)
    result = box.exec(["python3", "-c", f"import os\nif os.fork(): os._exit(3)\nos.setsid()\n{bomb}"])
    assert end(result) == (3, None)
    assert isinstance(result, ExecResult)
    assert result.lingering


STUBBORN = {
    "ignores all signals": "import signal as s\nfor n in range(1, 65):\n try: s.signal(n, s.SIG_IGN)\n except (OSError, ValueError): pass\n",
    "blocks all signals": "import signal as s\ns.pthread_sigmask(s.SIG_BLOCK, range(1, 65))\n",
    "stops itself": "import os\nos.kill(os.getpid(), 19)\n",
    "closes everything": "import os\nos.closerange(0, 1024)\n",
    "leaves its session": "import os\nfor _ in range(6):\n os.fork() or os.setsid()\n",
    "has no first thread": "import _thread, ctypes, time\n_thread.start_new_thread(time.sleep, (20,))\nctypes.CDLL(None).syscall(EXIT, 0)\n",
    # The child pauses on a stack of its own, and its parent waits for its exec.
    "waits in vfork": "import ctypes as c\nl = c.CDLL(None)\ns = c.create_string_buffer(65536)\n"
    "l.clone(l.pause, c.c_void_p((c.addressof(s) + 65536) & ~15), 0x4111, None)\n",
    "is idle": "import os\nos.nice(19)\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile 1: os.getpid()\n",
}


@pytest.mark.parametrize("name", sorted(STUBBORN))
def test_stubborn_commands(box: Any, name: str) -> None:
    """Whatever a command does to be left alone, its time-out ends it with all its processes."""
    program = STUBBORN[name].replace("EXIT", "60" if os.uname().machine == "x86_64" else "93")
    ended_by_timeout(box, program + "import time\ntime.sleep(20)")


def test_a_parent_in_vfork_is_one(box: Any) -> None:
    """The command above does wait in vfork: nothing after the call happens before it is ended."""
    process = box.start(["python3", "-c", STUBBORN["waits in vfork"] + "print('not reached', flush=True)"])
    box.exec("sleep 0.5")
    box.driver.call(process.kill)
    result = box.wait(process)
    assert isinstance(result, ExecResult)
    assert (result.fault, result.stdout) == ("cancelled", "")


def test_output_that_a_neighbour_holds_open(box: Any) -> None:
    """A command whose pipes another command holds open comes to its end all the same."""
    holder = box.start("read -r pid; exec 8>/proc/$pid/fd/1 9>/proc/$pid/fd/2; echo held; exec sleep 20 >&- 2>&-")
    victim = box.start("echo $$; read -r line; echo $line; exit 4")
    pid = next_line(box, victim)
    box.driver.call(holder.write_stdin, f"{pid}\n".encode())
    assert next_line(box, holder) == "held"
    box.driver.call(victim.write_stdin, b"whole\n")
    result = box.wait(victim)
    assert end(result) == (4, None)
    assert isinstance(result, ExecResult)
    assert result.stdout.split()[-1] == "whole"
    assert result.lingering, "nobody held it"
    box.driver.call(holder.kill)
    assert box.usable()


def next_line(box: Any, process: Any) -> str:
    """The first chunk of its output, and no more: for programs that wait after it."""

    async def read() -> bytes:
        async for _, chunk in process:
            return bytes(chunk)
        raise AssertionError("ended without a word")

    def read_blocking() -> bytes:
        return bytes(next(iter(process))[1])

    found: bytes = box.driver.call(read if hasattr(process, "__aiter__") else read_blocking)
    return found.decode().strip()


THIEF = """
import os, sys
for name in ("/proc/self/fd/1", "/proc/self/fd/2"):
    fd = os.open(name, os.O_RDWR | os.O_NONBLOCK)
    os.write(fd, b"x" * 30000)
    try:
        while os.read(fd, 1 << 16):
            pass
    except BlockingIOError:
        pass
os.write(1, b"end")
sys.exit(6)
"""


def test_a_command_that_reads_what_it_has_written(box: Any) -> None:
    """A command may take its own output back out of the pipe; the call returns with what was left, and with its exit."""
    result = box.exec(["python3", "-c", THIEF])
    assert end(result) == (6, None)
    assert isinstance(result, ExecResult)
    assert result.stdout.endswith("end")
    assert box.usable()


def test_a_helper_that_is_killed(interface: str, hostile: Any, sandbox_tmp: Any) -> None:
    """When the sandbox's first process is killed from outside, the call under way raises, and so does each later one."""
    with hostile.target(interface, "seccomp") as box:
        process = box.start("setsid sleep 600 & echo up; sleep 600")
        assert next_line(box, process) == "up"
        inside = hostile.descendants(box.helper)
        assert len(inside) >= 2
        os.kill(box.helper, signal.SIGKILL)
        assert isinstance(box.wait(process), SandboxLostError)
        assert not box.usable()
        assert hostile.soon_empty(lambda: [each for each in inside if each.is_running() and each.status() != "zombie"]) == []
