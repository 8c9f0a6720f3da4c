"""What the `strict` profile takes away, on the real thing: sockets, locks, anonymous programs, most of ioctl and prctl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isandbox import Mount
from isandbox.sync import create_sandbox

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def shared(sandbox_tmp: Path) -> Path:
    """A directory of the host that two sandboxes may read."""
    directory = sandbox_tmp / "shared"
    directory.mkdir(mode=0o755)
    (directory / "file").write_text("x")
    (directory / "file").chmod(0o644)
    return directory


@pytest.fixture(scope="module")
def strict(shared: Path) -> Iterator[Any]:
    with create_sandbox("seccomp", profile="strict", mounts=[Mount(str(shared), "/shared")]) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def default(shared: Path) -> Iterator[Any]:
    with create_sandbox("seccomp", mounts=[Mount(str(shared), "/shared")]) as sandbox:
        yield sandbox


LOCKS = """
import fcntl, struct
def record(kind):
    return struct.pack("hhqqi4x", kind, 0, 0, 0, 0)
def take(command, kind=fcntl.F_RDLCK):
    with open("/shared/file") as file:
        return attempt(fcntl.fcntl, file, command, record(kind))
with open("/shared/file") as file:
    out["flock"] = attempt(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    out["shared flock"] = attempt(fcntl.flock, file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    out["lease"] = attempt(fcntl.fcntl, file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    out["notify"] = attempt(fcntl.fcntl, os.open("/shared", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS)
out.update({"set": take(fcntl.F_SETLK), "wait": take(fcntl.F_SETLKW), "get": take(fcntl.F_GETLK, fcntl.F_WRLCK)})
out.update({"open set": take(37), "open wait": take(38), "open get": take(36)})
out["duplicate"] = attempt(fcntl.fcntl, 1, fcntl.F_DUPFD_CLOEXEC, 10)
"""
HOLD = "import fcntl, time; file = open('/shared/file'); fcntl.flock(file, 2); print('held', flush=True); time.sleep(30)"


def test_no_lock_can_be_taken_or_seen(strict: Any, default: Any, shared: Path, probes: Any) -> None:
    """With the default two sandboxes see each other's locks on a file that both may only read; a strict one cannot lock or ask."""
    with default.start(["python3", "-I", "-c", HOLD], timeout=30) as holder:
        for _, chunk in holder:
            assert chunk == b"held\n"
            break
        found = probes.run(strict, LOCKS)
        with create_sandbox("seccomp", mounts=[Mount(str(shared), "/shared")]) as other:
            seen = probes.run(other, LOCKS)
        holder.kill()
    assert found.pop("duplicate") == "ok"
    assert set(found.values()) == {"EPERM"}
    assert (seen["flock"], seen["set"], seen["get"], seen["open set"]) == ("EAGAIN", "ok", "ok", "ok")


SURFACE = """
import fcntl, socket, termios, pty
def made(family, kind):
    try:
        socket.socket(family, kind).close()
    except OSError as error:
        return word(error.errno)
    return "ok"
out["sockets"] = [made(f, k) for f in (1, 2, 10, 16, 38, 40) for k in (1, 2)]
pair = (ctypes.c_int * 2)()
out["pairs"] = {str(k): call(NR["socketpair"], 1, k, 0, pair) for k in (1, 2, 3, 5)}
left, right = socket.socketpair()
out["talk"] = (left.sendall(b"x"), right.recv(1).decode())[1]
out["connect"] = [attempt(left.connect, "/workspace/none"), attempt(left.bind, "/workspace/none"), attempt(left.listen)]
out["calls"] = {name: call(NR[name], 0, 0, 0, 0, 0, 0) for name in NAMES}
out["xattrs"] = [attempt(os.getxattr, "/", "user.x"), attempt(os.setxattr, "/workspace", "user.x", b""), attempt(os.listxattr, "/")]
master, slave = pty.openpty()
out["terminal"] = attempt(termios.tcgetattr, slave)
requests = {"FS_IOC_GETFLAGS": 0x80086601, "FICLONE": 0x40049409, "SIOCGIFCONF": 0x8912, "TIOCSTI": 0x5412, "TIOCSTI high": 0x5412 | 1 << 32}
out["ioctls"] = {name: call(NR["ioctl"], slave, request, None) for name, request in requests.items()}
out["prctls"] = [call(NR["prctl"], n, 0, 0, 0, 0) for n in (5, 22, 24, 26, 28, 35, 41, 45, 52, 53, 62, 0x59616D61)]
out["name"] = call(NR["prctl"], 15, b"named", 0, 0, 0)
"""
GONE = (
    "memfd_create", "execveat", "shmget", "msgget", "semget", "mq_open", "inotify_init1", "timer_create", "io_setup", "splice",
    "tee", "copy_file_range", "seccomp", "landlock_create_ruleset", "mlock", "pkey_alloc", "sched_setattr", "setuid", "capset",
    "personality", "fanotify_mark", "signalfd", "timerfd_create", "mincore", "readahead", "mq_unlink", "quotactl_fd",
)  # fmt: skip


def test_what_strict_does_not_have(strict: Any, probes: Any) -> None:
    """No sockets but connected pairs, none of the calls off the list, no file attributes, terminals as the only devices."""
    names = [name for name in GONE if name in probes.numbers()]
    found = probes.run(strict, SURFACE, NAMES=names)
    assert set(found["sockets"]) == {"EAFNOSUPPORT"}
    assert found["pairs"] == {"1": "ok", "2": "EPERM", "3": "EPERM", "5": "ok"}
    assert (found["talk"], found["terminal"], found["name"]) == ("x", "ok", "ok")
    assert set(found["connect"]) == {"ENOSYS"}
    assert found["calls"] == {name: "EPERM" if name == "quotactl_fd" else "ENOSYS" for name in names}
    assert set(found["xattrs"]) == {"ENOTSUP"}
    assert set(found["ioctls"].values()) == {"ENOTTY"}
    assert set(found["prctls"]) == {"EINVAL"}


def test_it_is_the_filter_that_takes_it_away(make: Any, default: Any, probes: Any) -> None:
    """The answers are the filter's, as one with marked errnos shows, and with the default profile most of it is there."""
    names = [name for name in GONE if name in probes.numbers()]
    marked = probes.run(make(profile="strict", filter=probes.marked), SURFACE, NAMES=names)
    assert set(marked["sockets"]) == {probes.marked_word(97)}
    assert set(marked["calls"].values()) == {probes.marked_word(1), probes.marked_word(38)}
    assert set(marked["xattrs"]) == {probes.marked_word(95)}
    assert set(marked["ioctls"].values()) == {probes.marked_word(25)}
    assert set(marked["prctls"]) == {probes.marked_word(22)}
    usual = probes.run(default, SURFACE, NAMES=names)
    assert "ok" in usual["sockets"]
    assert set(usual["pairs"].values()) == {"ok"}
    assert list(usual["calls"].values()).count("ENOSYS") == 0
