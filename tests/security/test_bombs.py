"""Programs that use as much as they can: each ends at its quota, its siblings and the host go on."""

from __future__ import annotations

import os
from typing import Any

import pytest

from isandbox import Quotas

pytestmark = pytest.mark.native

FORK_BOMB = """
import os, sys, time
made = 0
for _ in range({count}):
    try:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
    except BlockingIOError:
        print("refused after", made, flush=True)
        break
    made += 1
else:
    print("never refused", flush=True)
"""


def test_a_fork_bomb_ends_at_its_quota(make: Any) -> None:
    """Processes are refused at quotas.pids; a sibling command and, after a kill, the sandbox itself go on."""
    box = make(quotas=Quotas(pids=40))
    sibling = box.start("read -r line; echo $line")
    bomb = box.start(["python3", "-c", FORK_BOMB.format(count=200) + "time.sleep(20)"])
    line = next(iter(bomb))[1].decode()
    assert line.startswith("refused after")
    assert 25 < int(line.split()[-1]) < 41
    other = make()
    assert other.exec("echo fine").stdout == "fine\n"
    bomb.kill()
    sibling.write_stdin(b"alive\n")
    assert sibling.wait().stdout == "alive\n"
    assert box.exec("echo usable").stdout == "usable\n"


def test_without_the_quota_it_is_not_refused(make: Any) -> None:
    """The bomb above is one: with room for more it is never refused."""
    assert make(quotas=Quotas(pids=400)).exec(["python3", "-c", FORK_BOMB.format(count=60)]).stdout == "never refused\n"


def test_processes_that_fork_while_they_are_killed(make: Any) -> None:
    """A command whose processes all keep forking and changing their session is ended by its time-out to the last one."""
    runner = """
import os, time
end = time.monotonic() + 20
for _ in range(3):
    os.fork()
while time.monotonic() < end:
    try:
        if os.fork():
            os._exit(0)
        os.setsid()
    except OSError:
        pass
"""
    box = make(quotas=Quotas(pids=60))
    result = box.exec(["python3", "-c", runner], timeout=1)
    assert result.fault in ("timeout", None)
    if result.fault is None:  # the first one went its way; the others linger and are ended with the sandbox
        assert result.lingering
        return
    assert box.exec("ls -d /proc/[0-9]* | wc -l").stdout.strip() in {"3", "4", "5", "6"}


def test_open_files_end(make: Any) -> None:
    """Descriptors end at quotas.open_files, and the limit cannot be raised."""
    box = make(quotas=Quotas(open_files=64))
    program = "import os,resource\nn=0\ntry:\n while n<500: os.dup(0); n+=1\nexcept OSError as e: print(e.errno, n)\n"
    raised = "try: resource.setrlimit(7,(500,500))\nexcept (ValueError, PermissionError): print('kept')"
    number, count, kept = box.exec(["python3", "-c", program + raised]).stdout.split()
    assert (number, kept) == ("24", "kept")
    assert 50 < int(count) < 64


def test_a_file_ends_at_its_size(make: Any) -> None:
    """A file, also one without a name, cannot grow past quotas.file_size."""
    box = make(quotas=Quotas(file_size="64KiB"))
    result = box.exec("trap '' XFSZ; head -c 1M /dev/zero > big; stat -c %s big; truncate -s 1M other; stat -c %s other")
    assert result.stdout.split() == ["65536", "0"]
    memfd = "import os,signal\nsignal.signal(25,1)\nf=os.memfd_create('x')\ntry: os.ftruncate(f, 1<<20)\nexcept OSError as e: print(e.errno)"
    assert box.exec(["python3", "-c", memfd]).stdout == "27\n"


ALLOCATE = """
import mmap, os, threading, time, ctypes
def work():
    kept = []
    for _ in range(40):
        m = mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, len(m), 4096):
            m[at] = 1
        kept.append(m)
        time.sleep(0.02)
    print("allocated", flush=True)
    os._exit(0)
"""


# The first thread ends, and with it what /proc tells of the process.
HEADLESS = """
for _ in range(3):
    if os.fork() == 0:
        break
threading.Thread(target=work).start()
time.sleep(0.05)
ctypes.CDLL(None).syscall(EXIT, 0)
"""


@pytest.mark.parametrize("tail", ["work()", "os.fork(); os.fork(); work()", HEADLESS], ids=["one", "family", "headless"])
def test_memory_ends_at_its_quota(make: Any, tail: str) -> None:
    """Over quotas.memory the command ends with fault oom or is refused memory, however it is spread; the sandbox goes on."""
    number = 60 if os.uname().machine == "x86_64" else 93
    box = make(quotas=Quotas(memory="64MiB"))
    result = box.exec(["python3", "-c", ALLOCATE + tail.replace("EXIT", str(number))])
    assert "allocated" not in result.stdout
    assert result.fault == "oom" or "Cannot allocate memory" in result.stderr or "MemoryError" in result.stderr
    assert box.exec("echo usable").stdout == "usable\n"


def test_tmpfs_counts_as_memory(make: Any) -> None:
    """Scratch space counts as memory and takes half of the quota at most: full, it leaves room for who empties it."""
    box = make(quotas=Quotas(memory="64MiB"))
    filled = box.exec("for d in /tmp /dev/shm ~ .; do head -c 20M /dev/zero > $d/a; done; sleep 0.3; df -k /tmp | tail -1")
    assert filled.fault is None
    assert filled.stdout.split()[2:4] == ["32768", "0"]
    hungry = box.exec(["python3", "-c", "import time; x = bytearray(40 << 20); time.sleep(5)"], timeout=30)
    assert hungry.fault == "oom"
    assert box.exec("rm /tmp/a && echo emptied").stdout == "emptied\n"


def test_disk_is_one_quota(make: Any) -> None:
    """quotas.disk holds for the workspace, the home directory and the temporary ones together, by the kernel."""
    box = make(quotas=Quotas(disk="8MiB"))
    result = box.exec("for d in /tmp /dev/shm ~ .; do head -c 5M /dev/zero > $d/a; done; cat /tmp/a /dev/shm/a ~/a a | wc -c")
    assert 7 << 20 < int(result.stdout) <= 8 << 20
    assert "No space left" in result.stderr
    assert make().exec("head -c 9M /dev/zero > a && wc -c < a").stdout.strip() == str(9 << 20)


BURN = "end=time.process_time()+{seconds}\nwhile time.process_time()<end: pass\n"


# Their parents end first, and no process of the command ever waits for them.
ORPHANS = """
for _ in range(40):
    if os.fork() == 0:
        if os.fork() == 0:
            end = time.process_time() + 0.25
            while time.process_time() < end:
                pass
        os._exit(0)
    os.wait()
    time.sleep(0.3)
"""


@pytest.mark.parametrize("program", [BURN.format(seconds=20), ORPHANS], ids=["one", "orphans"])
def test_cpu_time_ends_at_its_quota(make: Any, program: str) -> None:
    """Over quotas.cpu_time the command ends with fault cpu, also when orphans use it up one after the other."""
    result = make(quotas=Quotas(cpu_time=1)).exec(["python3", "-c", "import os,time\n" + program], timeout=60)
    assert result.fault == "cpu"


def test_a_flood_of_output_ends(make: Any) -> None:
    """Over quotas.output the command ends with fault output; the host keeps no more than max_output of it."""
    result = make(quotas=Quotas(output="4MiB")).exec("yes", max_output=1000)
    assert result.fault == "output"
    assert len(result.stdout_bytes) < 2000
    assert result.omitted.stdout >= (4 << 20) - 2000
