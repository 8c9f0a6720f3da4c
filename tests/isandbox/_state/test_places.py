"""The directory of a sandbox: it appears whole, and its lock says whether the sandbox is alive."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isandbox import StateError
from isandbox._state.directory import StateDirectory
from isandbox._state.owner import current_process
from isandbox._state.places import CONTROL, LOCK, Places

NewId = Callable[[], str]


@pytest.fixture
def places(state: StateDirectory) -> Places:
    return Places(state)


@pytest.fixture
def helper(places: Places, new_id: NewId) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A sandbox whose first process is another one, which has the lock file and nothing else; it ends with its stdin."""
    with places.make() as place:
        name = new_id()
        place.publish(name)
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[place.lock])
    yield name, process
    process.communicate()


def test_it_appears_whole(places: Places, new_id: NewId) -> None:
    """Under its id only with its lock taken and its socket bound; 0700 and 0600."""
    name = new_id()
    with places.make() as place:
        assert places.ids() == ()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place.control)
        place.publish(name)
        assert places.ids() == (name,)
        assert places.is_alive(name)
        path = Path(places.path, name)
        assert sorted(os.listdir(path)) == [CONTROL, LOCK]
        assert [stat.S_IMODE(file.stat().st_mode) for file in (path, path / LOCK)] == [0o700, 0o600]
    assert not places.is_alive(name)


def test_nothing_is_made_by_looking(places: Places, state: StateDirectory, new_id: NewId) -> None:
    """Asking for what there is, or is alive, leaves the directory as it was."""
    name = new_id()
    assert not places.is_alive(name)
    assert places.open(name) is None
    assert places.ids() == places.remove_leftovers() == ()
    assert not places.remove(name)
    assert os.listdir(state.fd) == []
    Path(places.path, name).mkdir(parents=True)
    assert not places.is_alive(name)
    assert os.listdir(Path(places.path, name)) == []


def test_the_lock_is_the_sandboxs(places: Places, helper: tuple[str, subprocess.Popen[bytes]]) -> None:
    """Alive until the process that has it ends, by whatever death, and removed only then."""
    name, process = helper
    assert places.is_alive(name)
    with pytest.raises(StateError, match="this sandbox is alive"):
        places.remove(name)
    process.kill()
    process.wait()
    assert not places.is_alive(name)
    assert places.remove(name)
    assert not places.remove(name)
    assert places.ids() == ()


def test_two_who_look_at_once_do_not_see_each_other(places: Places, new_id: NewId) -> None:
    """A look takes a lock for a moment, and that is no sandbox."""
    name = new_id()
    with places.make() as place:
        place.publish(name)
    with open(Path(places.path, name, LOCK), "rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not places.is_alive(name)
        assert places.remove(name)


def test_a_fork_does_not_keep_the_lock(places: Places, new_id: NewId) -> None:
    """A child of the host that was forked meanwhile lives on without it; and closes nothing that is its own."""
    name = new_id()
    read, write = os.pipe()
    ready, begun = os.pipe()
    with places.make() as place:
        place.publish(name)
        child = os.fork()
        if child == 0:
            os.close(write)
            os.write(begun, b"x")
            mine = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]  # they get the numbers of what was closed
            os.read(read, 1)
            place.close()
            os._exit(sum(_is_closed(fd) for fd in mine))
        assert os.read(ready, 1) == b"x"
        assert places.is_alive(name)
    try:
        assert not places.is_alive(name)
    finally:
        for fd in (read, write, ready, begun):
            os.close(fd)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def _is_closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return True
    return False


def test_an_id_is_taken_once(places: Places, new_id: NewId) -> None:
    """A second directory of the same id is refused, and the first is as it was."""
    name = new_id()
    with places.make() as first, places.make() as second:
        first.publish(name)
        with pytest.raises(StateError, match=name):
            second.publish(name)
        second.discard()
        assert places.is_alive(name)
    assert os.listdir(places.path) == [name]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x", "../" + "seccomp-" + "ab" * 16, "seccomp-" + "ab" * 16 + "/..", ".new-1-2-3"]
)
def test_only_an_id_becomes_a_name(places: Places, name: str) -> None:
    """Whatever else is asked for is refused before any file is looked at."""
    with places.make() as place:
        for operation in (places.is_alive, places.open, places.remove, place.publish):
            with pytest.raises(StateError, match="is no id"):
                operation(name)
        place.discard()


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_a_lock_that_is_no_file(places: Places, new_id: NewId, tmp_path: Path, kind: str) -> None:
    """It is not followed, and looking at it neither waits nor makes anything."""
    name = new_id()
    with places.make() as place:
        place.publish(name)
    lock = Path(places.path, name, LOCK)
    lock.unlink()
    if kind == "link":
        lock.symlink_to(tmp_path / "nothing")
        with pytest.raises(StateError, match=LOCK):
            places.is_alive(name)
    else:
        (lock.mkdir if kind == "directory" else lambda: os.mkfifo(lock))()
        assert not places.is_alive(name)
    assert not (tmp_path / "nothing").exists()


def test_a_link_in_the_place_of_a_directory(places: Places, new_id: NewId, tmp_path: Path) -> None:
    """Nothing of what it leads to is opened or removed."""
    name, there = new_id(), tmp_path / "there"
    there.mkdir()
    (there / "keep").write_text("x")
    with places.make() as place:
        place.discard()
    Path(places.path, name).symlink_to(there)
    for operation in (places.open, places.remove):
        with pytest.raises(StateError, match=name):
            operation(name)
    assert (there / "keep").read_text() == "x"


MAKER = """
import os, signal, subprocess, sys
from isandbox._state.directory import StateDirectory
from isandbox._state.places import Places
place = Places(StateDirectory.open(sys.argv[1])).make()
if len(sys.argv) > 2:
    subprocess.Popen(["sleep", "60"], pass_fds=[place.lock], stdout=subprocess.DEVNULL)
    print(os.getpid(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_maker_left_is_removed(places: Places, state: StateDirectory) -> None:
    """And nothing that is about to be made by one who lives, in another pid namespace, or that is of no form of ours."""
    subprocess.run([sys.executable, "-c", MAKER, state.path], check=False)
    (left,) = os.listdir(places.path)
    me = current_process()
    kept = [
        f".new-{me.namespace + 1}-2147483647-1-{'0' * 16}",
        f".new-{me.namespace}-2147483647-1-{'0' * 15}",
        f"new-{me.namespace}-2147483647-1-{'0' * 16}",
        ".new-x",
    ]
    for name in kept:
        Path(places.path, name).mkdir()
    with places.make() as place:
        assert places.remove_leftovers() == (left,)
        assert places.remove_leftovers() == ()
        assert len(os.listdir(places.path)) == len(kept) + 1
        place.discard()
    assert sorted(os.listdir(places.path)) == sorted(kept)


def test_what_a_killed_maker_left_with_a_helper_stays_until_that_ends(places: Places, state: StateDirectory) -> None:
    """A first process that has the lock by then is alive, and what it uses is not removed under it."""
    subprocess.run([sys.executable, "-c", MAKER, state.path, "helper"], check=False, stdout=subprocess.PIPE)
    (left,) = os.listdir(places.path)
    lock = Path(places.path, left, LOCK)
    assert places.remove_leftovers() == ()
    (holder,) = (pid for pid in os.listdir("/proc") if pid.isdigit() and _has_open(pid, lock))
    os.kill(int(holder), 9)
    with open(lock, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # waits for the end
    assert places.remove_leftovers() == (left,)


def _has_open(pid: str, path: Path) -> bool:
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") == str(path) for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def test_two_who_remove_at_once(places: Places, new_id: NewId, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other has removed meanwhile is fine."""
    name = new_id()
    with places.make() as place:
        place.publish(name)
    really = os.listdir

    def outrun(directory: int) -> list[str]:
        found = really(directory)
        shutil.rmtree(Path(places.path, name))
        return found

    monkeypatch.setattr(os, "listdir", outrun)
    assert places.remove(name)
    monkeypatch.undo()
    assert places.ids() == ()


def test_what_is_not_ours_in_it_stays(places: Places, new_id: NewId) -> None:
    """A directory in a directory of ours is an error that names it, not something to remove."""
    name = new_id()
    with places.make() as place:
        place.publish(name)
    Path(places.path, name, "theirs").mkdir()
    with pytest.raises(StateError, match=name):
        places.remove(name)
    assert Path(places.path, name, "theirs").is_dir()


def test_no_descriptor_is_left(places: Places, new_id: NewId) -> None:
    """Neither what succeeds nor what fails costs one."""
    gc.collect()  # what an earlier test has dropped
    before = len(os.listdir("/proc/self/fd"))
    name = new_id()
    with places.make() as place:
        place.publish(name)
        with pytest.raises(StateError):
            places.remove(name)
    places.is_alive(name)
    places.remove(name)
    places.remove_leftovers()
    with places.make() as place:
        place.discard()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_failure_to_make_one_leaves_nothing(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the directory under its first name nor a descriptor."""
    gc.collect()  # what an earlier test has dropped
    before = len(os.listdir("/proc/self/fd"))

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StateError, match="no room left") as caught:
        places.make()
    assert caught.value.retryable
    assert os.listdir(places.path) == []
    assert len(os.listdir("/proc/self/fd")) == before
