"""Whose something is: alive, dead, or not to be judged from here; and never alive taken for dead."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox._state import owner as owners
from isandbox._state.owner import OwnerRecord, ProcessName

NAMESPACE = 4026531836
HERE = OwnerRecord("ab" * 8, "12" * 16, ProcessName(NAMESPACE, 100, 5000))


def stat_text(start: int, state: str = "S", threads: int = 1, name: str = "python") -> str:
    return f"100 ({name}) {state} 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 {threads} 0 {start} 1000 10\n"


class Machine:
    """A /proc of our own: pid -> the text of its stat, ``None`` for nobody, an error for what is hidden."""

    def __init__(self, seen: dict[int, str | OSError], namespace: int = NAMESPACE) -> None:
        self.seen, self.number = seen, namespace

    def namespace(self) -> int:
        return self.number

    def stat(self, pid: int) -> str | None:
        found = self.seen.get(pid)
        if isinstance(found, OSError):
            raise found
        return found


@pytest.mark.parametrize(
    ("seen", "fate"),
    [
        pytest.param(stat_text(5000), "alive", id="the same process"),
        pytest.param(stat_text(5001), "dead", id="a pid that was reused"),
        pytest.param(None, "dead", id="nobody"),
        pytest.param(stat_text(5000, "Z"), "dead", id="a zombie that nobody waits for"),
        pytest.param(stat_text(5000, "Z", threads=2), "alive", id="its first thread has ended, another runs"),
        pytest.param(stat_text(5000, name="x) Z 1 1 (y"), "alive", id="a name that looks like fields"),
        pytest.param(stat_text(5001, name="a) S " + "1 " * 18 + "5000"), "dead", id="a name that looks like the start time"),
        pytest.param(PermissionError("hidden"), "elsewhere", id="hidden by hidepid"),
        pytest.param("", "elsewhere", id="an empty file"),
        pytest.param("100 (python) S 1 2", "elsewhere", id="too few fields"),
    ],
)
def test_one_process(seen: str | OSError | None, fate: str) -> None:
    """Only a process that is certainly gone is dead; what cannot be read says nothing."""
    machine = Machine({} if seen is None else {100: seen})
    assert owners.process_fate(HERE.process, machine) == fate


def test_another_pid_namespace_is_never_judged() -> None:
    """The same number is another process there, dead or alive."""
    assert owners.process_fate(HERE.process, Machine({}, NAMESPACE + 1)) == "elsewhere"


@pytest.mark.parametrize(
    ("owner", "machine", "fate"),
    [
        pytest.param(HERE, "here", "dead", id="this host and boot"),
        pytest.param(replace(HERE, host="cd" * 8), "here", "dead", id="another container of this machine"),
        pytest.param(replace(HERE, host=""), "here", "dead", id="no machine-id, this boot"),
        pytest.param(replace(HERE, boot="34" * 16), "before", "dead", id="this host before it was started again"),
        pytest.param(replace(HERE, host="cd" * 8, boot="34" * 16), "elsewhere", "elsewhere", id="another host"),
        pytest.param(replace(HERE, host="", boot="34" * 16), "elsewhere", "elsewhere", id="a host without a name"),
        pytest.param(replace(HERE, boot=""), "elsewhere", "elsewhere", id="a boot that nobody knows"),
    ],
)
def test_hosts_and_boots(owner: OwnerRecord, machine: str, fate: str) -> None:
    """Another boot of this host is dead; another host is elsewhere, and two that share a directory leave each other's alone."""
    assert owners.machine_of(owner, HERE) == machine
    assert owners.owner_fate(owner, HERE, Machine({})) == fate


def test_nothing_is_known_on_a_machine_that_does_not_tell_its_boot() -> None:
    """Without a boot id of its own a process judges nobody, not even of its own host."""
    here = replace(HERE, boot="")
    assert [owners.owner_fate(owner, here, Machine({})) for owner in (HERE, here)] == ["elsewhere", "elsewhere"]


numbers = st.integers(0, 10**19)
records = st.builds(
    OwnerRecord,
    st.sampled_from(["", "0123456789abcdef"]),
    st.sampled_from(["", "f" * 32]),
    st.builds(ProcessName, numbers, st.integers(1, 2**31 - 1), numbers),
)


@given(records)
def test_a_record_is_read_as_it_was_written(record: OwnerRecord) -> None:
    """Text and record are the same thing in two forms."""
    assert owners.parse_owner(str(record)) == record
    assert owners.parse_process(str(record.process)) == record.process


@pytest.mark.parametrize(
    "text",
    [
        *("", "1-2", "1-2-3-4", "-1-2-3", "1-0-3", "1--2-3", "1-2-3\n", " 1-2-3", "x-2-3", "1-2147483648-3", "1-02-3"),
        *("1-99999999999999999999-3", "¹-2-3", "1-٢-3", "1-2-" + "9" * 21),
    ],
)
def test_what_is_no_name_of_a_process(text: str) -> None:
    """A pid is a positive number that the kernel could have given: 0 and -1 would mean whole groups to kill(2)."""
    assert owners.parse_process(text) is None
    assert owners.parse_owner(f"..{text}") is None


@pytest.mark.parametrize("text", ["", "1-2-3", ".1-2-3", "xyz..1-2-3", "AB..1-2-3", "..1-2-3.", f"{'0' * 17}..1-2-3"])
def test_what_is_no_record(text: str) -> None:
    """Host and boot are digests of a fixed length, or empty."""
    assert owners.parse_owner(text) is None


def test_this_process_is_alive_and_its_child_is_until_it_ends() -> None:
    """The machine's own /proc: a process that runs, one that has ended unwaited for, and one that is gone."""
    me = owners.current_process()
    assert me.pid == os.getpid()
    assert owners.process_fate(me) == "alive"
    assert owners.process_fate(replace(me, start=me.start + 1)) == "dead"
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = owners.name_process(child.pid)
    assert name is not None
    assert owners.process_fate(name) == "alive"
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert owners.process_fate(name) == "dead"
    child.wait()
    assert owners.process_fate(name) == "dead"
    assert owners.name_process(child.pid) is None


def test_a_fork_has_its_own_name() -> None:
    """The name is looked up once for each process, and a child never gives its parent's."""
    me = owners.current_process()
    assert owners.current_process() is me
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(owners.current_process()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.waitpid(child, 0)
    assert (name := owners.parse_process(text)) is not None
    assert (name.pid, name.namespace) == (child, me.namespace)
    assert name.start >= me.start


def unshared(options: list[str], program: str, *arguments: str) -> str:
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *rights, *options, "--fork", sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.native
def test_a_fork_with_its_parents_number() -> None:
    """In a new pid namespace a child has the number that its parent has in its own: it is looked up all the same."""
    program = (
        "import ctypes, os; from isandbox._state.owner import *; mine = current_process();"
        "assert mine.pid == 1 and mine.namespace, mine; assert not ctypes.CDLL(None).unshare(0x20000000);"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(current_process() != ProcessName(NOBODYS, 1, 0))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert unshared(["--pid", "--mount-proc"], program) == "0\n"


@pytest.mark.native
def test_a_proc_of_another_pid_namespace_tells_nothing() -> None:
    """After ``unshare --pid`` alone /proc shows other processes under our numbers: nobody is judged, and we are nobody's to judge."""
    program = (
        "import sys; from isandbox._state.owner import *; here = current_process();"
        "print(here, process_fate(here), owner_fate(parse_owner(sys.argv[1]), current_owner()))"
    )
    assert unshared(["--pid"], program, str(owners.current_owner())) == "0-1-0 elsewhere elsewhere\n"
    assert owners.process_fate(ProcessName(owners.NOBODYS, 1, 0)) == "elsewhere"


@pytest.mark.native
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a process of another user, and a /proc that hides it")
def test_a_hidden_process_is_not_dead() -> None:
    """With ``hidepid=2`` a process of another user has no directory in /proc: it is asked for by signal 0, and only nobody is dead."""
    program = (
        "import os; from isandbox._state.owner import *; first = name_process(1);"
        "os.setresgid(54321, 54321, 54321); os.setresuid(54321, 54321, 54321);"
        "assert first and not os.path.exists('/proc/1');"
        "print(process_fate(first), process_fate(ProcessName(first.namespace, 2**31 - 1, 1)), process_fate(current_process()))"
    )
    script = 'mount -t proc -o hidepid=2 proc /proc && "$0" -c "$1"; exit $?'
    command = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("elsewhere dead alive\n", "")


@pytest.mark.native
def test_a_time_namespace_is_another_world() -> None:
    """A process sees other start times in a time namespace of its own: it and the others do not judge each other."""
    me = owners.current_owner()
    program = (
        "import sys; from isandbox._state.owner import *;"
        "theirs = parse_owner(sys.argv[1]); here = current_owner();"
        "print(owner_fate(theirs, here), owner_fate(here, here), here)"
    )
    theirs, own, name = unshared(["--time", "--boottime", "7200"], program, str(me)).split()
    assert (theirs, own) == ("elsewhere", "alive")
    record = owners.parse_owner(name)
    assert record is not None
    assert owners.owner_fate(record, me) == "elsewhere"


def test_the_host_is_named_by_a_digest_of_its_machine_id() -> None:
    """The machine-id itself stands nowhere, as machine-id(5) asks; what is no machine-id gives no name."""
    digest = owners.hashed_machine_id("0123456789abcdef0123456789abcdef")
    assert (len(digest), digest == owners.hashed_machine_id("0123456789abcdef0123456789abcdee")) == (16, False)
    assert digest not in "0123456789abcdef" * 4
    assert [owners.hashed_machine_id(text) for text in ("", "uninitialized", "0" * 32, "AB" * 16, "ab" * 17)] == [""] * 5


def test_the_boot_is_the_kernels() -> None:
    """32 digits, the same each time."""
    assert len(owners.boot_id()) == 32
    assert owners.current_owner() == owners.parse_owner(str(owners.current_owner()))
