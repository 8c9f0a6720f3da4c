"""Nothing is left: after each module the test process and the machine are as they were before."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from isandbox.testing.containment.host import cgroups_of

# The same examples every time, no clock, and nothing written to the source tree, which may not be ours.
settings.register_profile("isandbox", derandomize=True, deadline=None, database=None)
settings.load_profile("isandbox")

# What the developer has set for isandbox is no part of a test, which would find it in the user's file.
os.environ["ISANDBOX_CONFIG"] = ""

# A shell without job control starts `make check &` with SIGINT ignored, nohup anything with SIGHUP ignored. The programs that
# tests start would inherit that, and rightly not pass such signals on.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


@dataclass(frozen=True)
class Traces:
    """What a sandbox could leave behind. Other users of the machine come and go, so only what is ours is counted."""

    children: frozenset[str]
    strays: frozenset[str]
    mounts: frozenset[str]
    cgroups: frozenset[str]
    temporary: frozenset[str]
    descriptors: int
    net_namespaces: frozenset[str]
    threads: frozenset[str]


def traces(temporary: Path) -> Traces:
    gc.collect()
    me = psutil.Process()
    children = me.children(recursive=True)
    # By the owner in the name (isandbox-NAMESPACE-PID-...): another worker's test may just have killed one of its hosts.
    cgroups = cgroups_of({me.pid, *(child.pid for child in children)})
    return Traces(
        children=frozenset(f"{child.pid} {child.name()}" for child in children),
        strays=frozenset(stray_processes(temporary)),
        mounts=frozenset(mount_points()),
        cgroups=frozenset(cgroups),
        temporary=frozenset(entry.name for entry in temporary.glob("isandbox-*")),
        descriptors=len(os.listdir("/proc/self/fd")),
        net_namespaces=frozenset(net_namespace(child.pid) for child in children),
        threads=frozenset(thread.name for thread in threading.enumerate() if thread.name not in ONCE_PER_PROCESS),
    )


def stray_processes(temporary: Path) -> Iterator[str]:
    """Processes of anybody that work in our temporary directory: a command that outlived its sandbox."""
    for process in psutil.process_iter():
        try:
            cwd = process.cwd()
        except (psutil.Error, OSError):  # it ended while it was looked at; psutil does not translate every errno
            continue
        if cwd.startswith(str(temporary)) and process.pid != os.getpid():
            yield f"{process.pid} {process.name()} in {cwd}"


def mount_points() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        yield " ".join(line.split()[3:5])


def net_namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return "gone"


@pytest.fixture(scope="session")
def sandbox_tmp() -> Iterator[Path]:
    """The temporary directory of this test session, where sandboxes put their workspaces, and the state of those that stay."""
    with tempfile.TemporaryDirectory(prefix="tests-of-sandboxes-") as path:
        os.chmod(path, 0o711)  # noqa: S103 - sandboxes of other uids walk through it
        before, tempfile.tempdir = tempfile.tempdir, path
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ISANDBOX_STATE_DIR", os.path.join(path, "state"))  # not the user's own, who has sandboxes there
            yield Path(path)
        tempfile.tempdir = before


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left(sandbox_tmp: Path) -> Iterator[None]:
    before = traces(sandbox_tmp)
    yield
    after = traces(sandbox_tmp)
    for field in fields(Traces):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if field.name == "descriptors":
            assert now <= was + ALLOWED_DESCRIPTORS, f"open files: {was} before, {now} after: {open_files()}"
        elif field.name == "threads":
            assert not {name for name in now - was if name.startswith("isandbox")}, f"threads: {now - was}"
        else:
            assert not now - was, f"left behind, {field.name}: {sorted(now - was)}"


# The drain and the bridge's loop: a thread, a selector and the two ends of a wake-up pipe each, once per process. And the
# namespace with a user's subordinate ids.
ONCE_PER_PROCESS = ("isandbox-drain", "isandbox-loop")
ALLOWED_DESCRIPTORS = 3 * len(ONCE_PER_PROCESS) + 1


def open_files() -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(f"{fd} -> {os.readlink(f'/proc/self/fd/{fd}')}")
        except OSError:
            continue
    return found
