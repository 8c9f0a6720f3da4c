"""Whose something is, in a form that a later process can judge: alive, dead, or not to be judged from here. Pure but for `Proc`.

A pid alone would be another process's one day, so a process is named by its pid namespace, its pid and its start time. That is
enough within one boot of one machine, and short enough for a file name. What is kept on disk names the boot and the host too.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal, Protocol

Fate = Literal["alive", "dead", "elsewhere"]
Machine = Literal["here", "before", "elsewhere"]

# The number that Linux gives to the first of the time namespaces (PROC_TIME_INIT_INO in include/linux/proc_ns.h).
_FIRST_TIME_NAMESPACE = 0xEFFFFFFA
NOBODYS = 0  # no namespace has this number
_APPLICATION = b"isandbox state"
_PROCESS = re.compile(r"([0-9]{1,20})-([1-9][0-9]{0,9})-([0-9]{1,20})", re.ASCII)
_RECORD = re.compile(r"([0-9a-f]{16})?\.([0-9a-f]{32})?\.([0-9-]+)", re.ASCII)
_PID_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ProcessName:
    """``namespace``: in which ``pid`` and ``start`` mean something, see `Proc.namespace`. ``start``: clock ticks since boot."""

    namespace: int
    pid: int
    start: int

    def __str__(self) -> str:
        return f"{self.namespace}-{self.pid}-{self.start}"


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """``host``: 16 hexadecimal digits, ``boot``: 32; each empty when this machine does not tell."""

    host: str
    boot: str
    process: ProcessName

    def __str__(self) -> str:
        return f"{self.host}.{self.boot}.{self.process}"


class Processes(Protocol):
    """What is known of the machine's processes."""

    def namespace(self) -> int:
        """Raises `OSError` where it cannot be told."""
        ...

    def stat(self, pid: int) -> str | None:
        """The text of proc_pid_stat(5); ``None`` when there is no such process. Raises `OSError` when it cannot be told."""
        ...


class Proc:
    """The machine's own /proc."""

    def namespace(self) -> int:
        """The pid namespace's inode. In a time namespace of its own a process sees start times that nobody else sees: there it
        is joined with that one's inode, so that the two sides do not judge each other. Where /proc is another pid namespace's,
        as after ``unshare --pid`` alone, its numbers are other processes: that is an `OSError`.
        """
        if os.readlink("/proc/self") != str(os.getpid()):
            raise FileNotFoundError("/proc belongs to another pid namespace")
        number = os.stat("/proc/self/ns/pid").st_ino
        try:
            time = os.stat("/proc/self/ns/time").st_ino
        except FileNotFoundError:  # before Linux 5.6
            return number
        return number if time == _FIRST_TIME_NAMESPACE else number << 32 | time

    def stat(self, pid: int) -> str | None:
        try:
            return read_text(f"/proc/{pid}/stat")
        except (FileNotFoundError, ProcessLookupError):
            pass
        try:
            os.kill(pid, 0)  # with hidepid= a process that is there may have no directory
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
        raise PermissionError(f"process {pid} is hidden")


PROC = Proc()


def read_text(path: str) -> str:
    """The first 4 KiB of a file of /proc or /etc. Raises `OSError`."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096).decode("utf-8", "replace")
    finally:
        os.close(fd)


def parse_process(text: str) -> ProcessName | None:
    """What ``str(ProcessName)`` gave; ``None`` for anything else."""
    match = _PROCESS.fullmatch(text)
    if match is None or int(match[2]) > _PID_MOST:
        return None
    return ProcessName(int(match[1]), int(match[2]), int(match[3]))


def parse_owner(text: str) -> OwnerRecord | None:
    """What ``str(OwnerRecord)`` gave; ``None`` for anything else."""
    match = _RECORD.fullmatch(text)
    process = None if match is None else parse_process(match[3])
    return None if match is None or process is None else OwnerRecord(match[1] or "", match[2] or "", process)


def process_fate(process: ProcessName, processes: Processes = PROC) -> Fate:
    """For a process of this boot of this machine. Does not raise `OSError`."""
    try:
        if process.namespace != processes.namespace():
            return "elsewhere"
        text = processes.stat(process.pid)
        if text is None:
            return "dead"
        start, ended = _start_and_end(text)
    except (OSError, ValueError, IndexError):
        return "elsewhere"
    return "dead" if ended or start != process.start else "alive"


def machine_of(owner: OwnerRecord, here: OwnerRecord) -> Machine:
    """Whether the owner's machine is the one of ``here``, as it runs now; that one before it was last started; or elsewhere.

    Two boots never have the same id, so that one which is equal says "here, now", whatever the host's id is: containers of one
    machine have different ones. A machine that does not tell its name or its boot is elsewhere.
    """
    if owner.boot and owner.boot == here.boot:
        return "here"
    return "before" if owner.boot and here.boot and owner.host and owner.host == here.host else "elsewhere"


def owner_fate(owner: OwnerRecord, here: OwnerRecord, processes: Processes = PROC) -> Fate:
    """Judged from ``here``, which is `current_owner` of this process. Does not raise `OSError`.

    Another boot of this host has ended with all its processes. Of another host nothing can be seen from here.
    """
    machine = machine_of(owner, here)
    if machine == "here":
        return process_fate(owner.process, processes)
    return "dead" if machine == "before" else "elsewhere"


def _start_and_end(stat: str) -> tuple[int, bool]:
    """Fields 22, 3 and 20 of proc_pid_stat(5): start time; and whether it is a zombie, whose other threads have ended too.

    The name before them may hold anything but ends with the last ")".
    """
    fields = stat.rpartition(")")[2].split()
    return int(fields[19]), fields[0] in {"Z", "X"} and int(fields[17]) <= 1


def name_process(pid: int, processes: Processes = PROC) -> ProcessName | None:
    """The name of a process that is there now; ``None`` when it is not. Raises `OSError` when it cannot be told."""
    namespace, text = processes.namespace(), processes.stat(pid)
    return None if text is None else ProcessName(namespace, pid, _start_and_end(text)[0])


def current_process() -> ProcessName:
    """This process, looked up once and again after a fork. Where that cannot be told, a name that nobody ever takes for dead."""
    pid = os.getpid()
    found = _CURRENT.get("process")
    if found is None or found.pid != pid:
        try:
            found = name_process(pid)
        except (OSError, ValueError, IndexError):
            found = None
        if found is None:
            return ProcessName(NOBODYS, pid, 0)
        _CURRENT["process"] = found
    return found


def current_owner() -> OwnerRecord:
    """The full record of this process."""
    return OwnerRecord(host_id(), boot_id(), current_process())


def host_id() -> str:
    """Says which machine this is, and not its machine-id: machine-id(5) asks to keep that one to oneself. Empty when it has none."""
    found = _MACHINE.get("host")
    if found is None:
        found = _MACHINE["host"] = hashed_machine_id(_first_line("/etc/machine-id"))
    return found


def boot_id() -> str:
    """32 hexadecimal digits that the kernel chose when it started; empty when it does not tell."""
    found = _MACHINE.get("boot")
    if found is None:
        text = _first_line("/proc/sys/kernel/random/boot_id").replace("-", "")
        found = _MACHINE["boot"] = text if re.fullmatch("[0-9a-f]{32}", text) else ""
    return found


def hashed_machine_id(text: str) -> str:
    """16 hexadecimal digits of the machine-id, keyed as machine-id(5) advises; empty for what is none."""
    if re.fullmatch("[0-9a-f]{32}", text) is None or text == "0" * 32:
        return ""
    import hmac

    return hmac.digest(bytes.fromhex(text), _APPLICATION, "sha256")[:8].hex()


def _first_line(path: str) -> str:
    try:
        return read_text(path).partition("\n")[0].strip()
    except OSError:
        return ""


_CURRENT: dict[str, ProcessName] = {}
_MACHINE: dict[str, str] = {}
if hasattr(os, "register_at_fork"):
    # In a new pid namespace a child may have the number of its parent.
    os.register_at_fork(after_in_child=_CURRENT.clear)
