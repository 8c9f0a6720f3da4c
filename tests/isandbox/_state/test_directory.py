"""The state directory: where it is, and that only one which is ours alone is used."""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from isandbox import ConfigurationError, StateError
from isandbox._settings import StateVariables
from isandbox._state import directory as directories
from isandbox._state.directory import StateDirectory, choose_path
from isandbox._state.places import Places
from isandbox._state.register import Register


@pytest.mark.parametrize(
    ("variables", "uid", "path"),
    [
        (StateVariables("/s/t/", "/x", "/h"), 1000, "/s/t"),
        (StateVariables("/s", "/x", "/h"), 0, "/s"),
        (StateVariables(None, "/x", "/h"), 0, "/var/lib/isandbox"),
        (StateVariables(), 0, "/var/lib/isandbox"),
        (StateVariables(None, "/x", "/h"), 1000, "/x/isandbox"),
        (StateVariables(None, "relative", "/h"), 1000, "/h/.local/state/isandbox"),
        (StateVariables(None, None, "/h"), 1000, "/h/.local/state/isandbox"),
    ],
)
def test_where_it_is(variables: StateVariables, uid: int, path: str) -> None:
    """Our own variable first, then root's place or the one that the XDG specification names."""
    assert choose_path(variables, uid) == path


@pytest.mark.parametrize(
    "variables",
    [StateVariables("state"), StateVariables("/" + "x" * 480), StateVariables(), StateVariables(None, None, "relative")],
    ids=["relative", "too long for SQLite", "no HOME", "a relative HOME"],
)
def test_what_is_no_place(variables: StateVariables) -> None:
    """A variable that says no usable place is an error that names our own one."""
    with pytest.raises(ConfigurationError, match="ISANDBOX_STATE_DIR"):
        choose_path(variables, 1000)


def test_the_variables_are_read_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may set them after the import; an empty one counts as unset."""
    monkeypatch.setenv("ISANDBOX_STATE_DIR", str(tmp_path / "here"))
    with StateDirectory.make() as directory:
        assert directory.path == str(tmp_path / "here")
    monkeypatch.setattr(directories.os, "geteuid", lambda: 12345)
    monkeypatch.setenv("ISANDBOX_STATE_DIR", "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "there"))
    assert StateDirectory.open() is None


def test_opening_makes_nothing(tmp_path: Path) -> None:
    """Who only looks leaves no directory behind."""
    assert StateDirectory.open(str(tmp_path / "a" / "b")) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_it_is_made_for_us_alone(tmp_path: Path, umask: int) -> None:
    """0700 with the directories above it that were missing, whatever the umask allows."""
    before = os.umask(umask)
    try:
        with StateDirectory.make(str(tmp_path / "a" / "b")):
            pass
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("a", "a/b")] == [0o700, 0o700]
    with StateDirectory.make(str(tmp_path / "a" / "b")):
        pass


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o770, 0o777, 0o740])
def test_one_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    """It is not closed silently: what has been in it may not be ours."""
    place = tmp_path / "state"
    place.mkdir()
    place.chmod(mode)
    with pytest.raises(StateError, match=rf"{place}: it is open to others \(mode {mode:04o}\).* chmod 0700"):
        StateDirectory.make(str(place))
    assert stat.S_IMODE(place.stat().st_mode) == mode


def test_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    """A link in its place may have been laid by somebody, wherever it leads."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").write_text("x")
    for name in ("link", "dangling", "file"):
        for operation in (StateDirectory.open, StateDirectory.make):
            with pytest.raises(StateError, match=f"{name}: a link or a file, not a directory"):
                operation(str(tmp_path / name))
    assert (tmp_path / "file").read_text() == "x"
    assert not (tmp_path / "nowhere").exists()


def test_one_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns it could put anything into it."""
    place = tmp_path / "state"
    place.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(place, 54322, 54322)
    else:
        monkeypatch.setattr(directories.os, "geteuid", lambda: 54322)
    with pytest.raises(StateError, match="it belongs to uid"):
        StateDirectory.open(str(place))


def test_network_and_pseudo_file_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kind of the file system, with a way out."""
    place = str(tmp_path / "state")
    monkeypatch.setattr(directories, "kind_of", lambda _: "nfs4")
    with pytest.raises(StateError, match=r"network or shared file system \(nfs4\).*ISANDBOX_STATE_DIR"):
        StateDirectory.make(place)
    monkeypatch.undo()
    with StateDirectory.make(place):
        pass
    with pytest.raises(StateError, match="/proc/self"):
        StateDirectory.make("/proc/self/isandbox")


def test_one_that_is_not_writable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is begun in it. Root may write everywhere, so there the kernel's answer is given for it."""
    place = tmp_path / "state"
    place.mkdir(mode=0o500)
    if os.geteuid() == 0:
        monkeypatch.setattr(directories.os, "access", lambda *_, **__: False)
    with pytest.raises(StateError, match=r"not writable.*ISANDBOX_STATE_DIR"):
        StateDirectory.open(str(place))


def test_a_path_of_300_bytes(tmp_path: Path) -> None:
    """Longer than a socket's name may be: the register and the control socket work all the same."""
    place = str(tmp_path) + "/d" * ((300 - len(str(tmp_path))) // 2) + "/é"
    assert len(place.encode()) > 300
    program = f"""
import socket
from isandbox._state.directory import StateDirectory
from isandbox._state.places import Places
from isandbox._state.register import Register
id = "seccomp-" + "ab" * 16
with StateDirectory.make({place!r}) as state, Places(state).make() as made:
    Register(state).begin(id)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(made.control)
    listener.listen()
    made.publish(id)
    fd = Places(state).open(id)
    client = socket.socket(socket.AF_UNIX)
    client.connect(f"/proc/self/fd/{{fd}}/control")
    listener.accept()[0].sendall(b"hello")
    print(client.recv(5), Register(state).get(id).state)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("b'hello' starting\n", "")


def test_it_is_not_left_when_its_path_leads_elsewhere(tmp_path: Path) -> None:
    """It was opened once: a directory that is put in its place later gets nothing."""
    with StateDirectory.make(str(tmp_path / "state")) as state:
        (tmp_path / "state").rename(tmp_path / "moved")
        (tmp_path / "state").mkdir(mode=0o700)
        with Places(state).make() as made:
            made.publish("seccomp-" + "ab" * 16)
        Register(state).begin("seccomp-" + "ab" * 16)
    assert sorted(path.name for path in (tmp_path / "moved").iterdir()) == ["register.db", "sandboxes"]
    assert list((tmp_path / "state").iterdir()) == []


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    """Neither an error nor closing twice costs one."""
    gc.collect()  # what an earlier test has dropped
    before = len(os.listdir("/proc/self/fd"))
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(StateError):
        StateDirectory.make(str(tmp_path / "open"))
    with StateDirectory.make(str(tmp_path / "state")) as state:
        state.close()
    assert len(os.listdir("/proc/self/fd")) == before
