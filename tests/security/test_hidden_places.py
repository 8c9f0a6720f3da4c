"""Attacks on credentials and sockets in directories that are mounted: seen by nobody who was not given them by name."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isandbox import ConfigurationError, Mount, Workspace
from isandbox._state.directory import StateDirectory
from isandbox.testing.containment.host import contents
from isandbox_backends._shared.plan import Cover, Record
from isandbox_backends.seccomp import hidden

pytestmark = pytest.mark.native

FILES = ("netrc", "credentials", "history", ".toml", ".json", ".npmrc", ".pypirc", ".cnf", ".xml", ".yml", "authority", "rc", "pgpass",
         "s3cfg", "boto", "token", "lesshst", "viminfo", "cfg", "dbshell")  # fmt: skip


@pytest.fixture
def canary() -> str:
    return f"canary-{secrets.token_hex(16)}"


@pytest.fixture
def home(tmp_path: Path, canary: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """$HOME with a secret at every place where one could be, open to everybody, and a project beside them."""
    place = tmp_path.resolve() / "home"
    for name in hidden.HOME:
        path = place / name if name.endswith(FILES) else place / name / "secret"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(canary)
    (place / "project").mkdir()
    (place / "project" / "notes").write_text("notes")
    (place / ".config" / "plain").write_text("plain")
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    for name in hidden.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(place))
    return place


def uncovered(plan: list[Record]) -> list[Record]:
    """Mutant: nothing is laid over anything."""
    return [record for record in plan if not isinstance(record, Cover)]


def unpinned(plan: list[Record]) -> list[Record]:
    """Mutant: covers, and nothing that holds the directories above them."""
    return [record for record in plan if not (isinstance(record, Cover) and record.in_store)]


READ_EVERYTHING = """
out["files"], out["kinds"] = {}, {}
for top, directories, files in os.walk(PLACE):
    for name in files + directories:
        path = os.path.join(top, name)
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            out["kinds"][path] = stat.filemode(mode)
    for name in files:
        path = os.path.join(top, name)
        out["files"][path] = content(path)
"""


@pytest.mark.parametrize("where", [".", "home"])
def test_secrets_below_a_mounted_directory(make: Any, probes: Any, home: Path, canary: str, where: str) -> None:
    """No secret of a home is seen in a mount of it, or of what it is in; everything else is, and no cover is a device."""
    options = {"mounts": [Mount(str((home.parent / where).resolve()), "/mnt/all")]}
    found = probes.run(make(**options), READ_EVERYTHING, PLACE="/mnt/all")
    assert canary not in str(found)
    assert {"notes", "plain"} <= set(found["files"].values())
    assert found["kinds"] == {}
    shown = probes.run(make(**options, edit=uncovered), READ_EVERYTHING, PLACE="/mnt/all")
    assert list(shown["files"].values()).count(canary) == len(hidden.HOME)


def test_a_project_below_a_home_has_nothing_to_hide(make: Any, probes: Any, home: Path, canary: str) -> None:
    """Files of a project are never hidden by name: its own .npmrc is the project's."""
    (home / "project" / ".npmrc").write_text("audit=false")
    found = probes.run(make(workspace=str(home / "project")), READ_EVERYTHING, PLACE="/workspace")
    assert set(found["files"].values()) == {"notes", "audit=false"}
    assert canary not in str(found)


def test_what_is_mounted_by_name_is_seen(make: Any, probes: Any, home: Path, canary: str) -> None:
    """A hidden directory, or one file of it, is there when it is mounted itself; its neighbours stay hidden."""
    mounts = [
        Mount(str(home), "/mnt/home"),
        Mount(str(home / ".aws"), "/mnt/home/.aws"),
        Mount(str(home / ".ssh/secret"), "/mnt/home/.ssh/known_hosts"),
        Mount(str(home / ".kube"), "/kube"),
    ]
    found = probes.run(make(mounts=mounts), READ_EVERYTHING + READ_EVERYTHING.replace("PLACE", "'/kube'").split("\n", 2)[2],
                       PLACE="/mnt/home")["files"]  # fmt: skip
    seen = sorted(path for path, text in found.items() if text == canary)
    assert seen == ["/kube/secret", "/mnt/home/.aws/secret", "/mnt/home/.ssh/known_hosts"]


@pytest.mark.parametrize("text", ["dotfiles/ssh", "{home}/dotfiles/ssh", "../home/./dotfiles/ssh"])
def test_a_secret_that_is_a_link(make: Any, probes: Any, home: Path, canary: str, text: str) -> None:
    """Where a link leads is hidden too, under the name that it really has."""
    (home / "dotfiles").mkdir()
    (home / ".ssh").rename(home / "dotfiles" / "ssh")
    (home / ".ssh").symlink_to(text.format(home=home))
    for mount in (Mount(str(home), "/mnt/x"), Mount(str(home / "dotfiles"), "/mnt/x"), Mount(str(home), str(home))):
        box = make(mounts=[mount])
        assert canary not in str(probes.run(box, READ_EVERYTHING, PLACE=mount.target))
        assert "Permission denied" not in box.exec(["ls", "-laR", mount.target]).stderr


def test_a_directory_without_permissions(
    make: Any, probes: Any, home: Path, canary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in a directory that is closed now stays hidden when a command opens it again."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "project" / "closed"))
    secret = home / "project" / "closed" / "gh" / "hosts.yml"
    secret.parent.mkdir(parents=True)
    secret.write_text(canary)
    secret.parent.parent.chmod(0)
    try:
        options = {"workspace": str(home / "project")}
        probe = "attempt(os.chmod, '/workspace/closed', 0o777)\n" + READ_EVERYTHING
        assert canary not in str(probes.run(make(**options), probe, PLACE="/workspace"))
        secret.parent.parent.chmod(0)
        assert canary in str(probes.run(make(**options, edit=uncovered), probe, PLACE="/workspace"))
    finally:
        secret.parent.parent.chmod(0o755)


def test_state_that_is_made_later(make: Any, probes: Any, home: Path, canary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first detached sandbox of a user is hidden from those that were there before it, with the directories above it; what
    else comes into a home is seen.
    """
    shutil.rmtree(home / ".local" / "state")
    state = home / ".local/state/isandbox"
    monkeypatch.setenv("ISANDBOX_STATE_DIR", str(state))  # root's is not in its home
    box = make(mounts=[Mount(str(home), "/mnt/home")])
    with StateDirectory.make():
        for name in ("isandbox", "isandbox/sandboxes", "other"):
            place = state.parent / name
            place.mkdir(exist_ok=True)
            place.chmod(0o755)
            (place / "file").write_text(canary if "isandbox" in name else "other")
    found = probes.run(box, READ_EVERYTHING, PLACE="/mnt/home/.local/state")["files"]
    assert found == {"/mnt/home/.local/state/other/file": "other"}


@pytest.mark.parametrize("name", ["", "sandboxes", "sandboxes/seccomp-1/control"])
def test_state_is_not_mounted(make: Any, home: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gives a command the directory by which detached sandboxes are reached, or a part of it."""
    state = home / "project" / "state"
    (state / "sandboxes/seccomp-1").mkdir(parents=True)
    (state / "sandboxes/seccomp-1/control").touch()
    make(mounts=[Mount(str(state / name), "/mnt")])
    monkeypatch.setenv("ISANDBOX_STATE_DIR", str(state))
    for options in ({"mounts": [Mount(str(state / name), "/mnt")]}, {"workspace": str(state)}):
        with pytest.raises(ConfigurationError, match="detached sandboxes are kept"):
            make(**options)


# -- in a directory that can be written

MOVES = """
AT_FDCWD, EXCHANGE = -100, 2
def exchange(a, b):
    return call(NR["renameat2"], AT_FDCWD, a.encode(), AT_FDCWD, b.encode(), EXCHANGE)
place = "/mnt/config"
os.makedirs(place + "/own/deep")
open(place + "/own/file", "w").write("x")
out["cover"] = [attempt(os.rename, place + "/gh", place + "/x"), attempt(os.rmdir, place + "/gh"),
                attempt(os.rename, place + "/own", place + "/gh"), exchange(place + "/gh", place + "/own"),
                attempt(os.rename, place + "/git/credentials", place + "/c"), attempt(os.unlink, place + "/git/credentials"),
                attempt(os.rename, place + "/own/file", place + "/git/credentials"),
                attempt(os.link, place + "/git/credentials", place + "/hard")]
out["above"] = [attempt(os.rename, place + "/git", place + "/moved"), exchange(place + "/git", place + "/own"),
                attempt(os.rename, place + "/own/deep", place + "/git"), attempt(os.rmdir, place + "/git")]
out["write"] = [opened(place + "/gh/new", os.O_WRONLY | os.O_CREAT), opened(place + "/git/credentials", os.O_WRONLY),
                attempt(os.chmod, place + "/gh", 0o777), attempt(os.truncate, place + "/git/credentials", 0)]
out["free"] = [attempt(os.rename, place + "/own/file", place + "/git/file"), attempt(os.rename, place + "/git/file", place + "/f"),
               attempt(os.link, place + "/f", place + "/git/linked"), attempt(os.rename, place + "/own", place + "/renamed")]
"""


@pytest.fixture
def config(make: Callable[..., Any], home: Path) -> Callable[..., Any]:
    """A sandbox that may write a directory with ``gh/`` and ``git/credentials`` in it, which are hidden."""
    return lambda **options: make(mounts=[Mount(str(home / ".config"), "/mnt/config", "rw")], **options)


def test_covers_cannot_be_moved(config: Any, probes: Any, home: Path, canary: str) -> None:
    """Neither a cover nor a directory above it can be renamed, exchanged or replaced; other files move freely past it."""
    box = config()
    found = probes.run(box, MOVES)
    assert set(found["cover"]) | set(found["above"]) <= {"EBUSY", "EXDEV", "ENOTEMPTY"}
    assert set(found["write"]) <= {"EROFS", "EPERM", "EACCES"}
    assert set(found["free"]) == {"ok"}
    assert canary not in str(probes.run(box, READ_EVERYTHING, PLACE="/mnt/config"))
    assert (home / ".config/git/credentials").read_text() == canary
    assert {path.name for path in (home / ".config/gh").iterdir()} == {"secret"}


def test_without_pins_the_directory_above_moves(config: Any, probes: Any, home: Path) -> None:
    """The check above sees something: a plan without its pins lets the directory be renamed on the host."""
    found = probes.run(config(edit=unpinned), MOVES)
    assert found["above"][0] == "ok"
    assert (home / ".config/moved/credentials").exists()


def test_what_is_added_later(config: Any, probes: Any, home: Path) -> None:
    """New files of a hidden directory are hidden as well; a name that was not there at creation is seen when it comes."""
    box = config()
    (home / ".config/gh/later").write_text("later-secret")
    (home / ".config/plain-later").write_text("later-plain")
    found = str(probes.run(box, READ_EVERYTHING, PLACE="/mnt/config"))
    assert "later-secret" not in found
    assert "later-plain" in found


def test_what_the_host_puts_in_the_place_of_a_file(config: Any, probes: Any, home: Path, canary: str) -> None:
    """As the threat model says: a hidden file that the host replaces is seen, a hidden directory that it moves is not."""
    box = config()
    (home / "new").write_text("replaced")
    (home / "new").rename(home / ".config/git/credentials")
    (home / ".config/gh").rename(home / ".config/gh2")
    found = str(probes.run(box, READ_EVERYTHING, PLACE="/mnt/config"))
    assert "replaced" in found
    assert canary not in found


# -- sockets


@pytest.fixture
def listeners(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, socket.socket]]:
    """An agent at $SSH_AUTH_SOCK, one of GnuPG, a bus, and one that nothing says anything about."""
    places = {"agent": "project/agent.sock", "gpg": ".gnupg/S.gpg-agent", "bus": "project/bus", "other": "project/other"}
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home / places["agent"]))
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={home / places['bus']},guid=1")
    monkeypatch.chdir(home)  # an address has room for 107 bytes
    found = {}
    for name, place in places.items():
        found[name] = listener = socket.socket(socket.AF_UNIX)
        listener.settimeout(0)
        listener.bind(place)
        (home / place).chmod(0o777)
        listener.listen()
    yield found
    for listener in found.values():
        listener.close()


CONNECT = """
for path in PATHS:
    os.chdir(os.path.dirname(path))
    with socket.socket(socket.AF_UNIX) as s, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as d:
        out[path] = [attempt(s.connect, os.path.basename(path)), attempt(d.sendto, b"x", os.path.basename(path))]
"""


def test_sockets_of_agents(make: Any, probes: Any, home: Path, listeners: dict[str, socket.socket]) -> None:
    """Nobody inside reaches an agent or a bus through a mounted directory; the probe can connect where nothing is hidden."""
    paths = [f"/mnt/home/{name}" for name in ("project/agent.sock", ".gnupg/S.gpg-agent", "project/bus", "project/other")]
    found = probes.run(make(mounts=[Mount(str(home), "/mnt/home")]), CONNECT, PATHS=paths)
    assert found.pop(paths[3])[0] == "ok"
    assert {word for words in found.values() for word in words} <= {"ECONNREFUSED", "ENOENT", "EACCES"}
    for name, listener in listeners.items():
        if name == "other":
            listener.accept()[0].close()
        else:
            with pytest.raises(BlockingIOError):
                listener.accept()


# -- the host's side


def test_nothing_is_made_on_the_host(make: Any, home: Path) -> None:
    """Before, during and after a sandbox, and after its sudden death, a mounted directory is the same, to the inode."""
    for name in (".ssh", ".aws", ".config/gh"):
        for path in (home / name).iterdir():
            path.unlink()
        (home / name).rmdir()
    before = contents(home)
    box = make(mounts=[Mount(str(home), "/mnt/home"), Mount(str(home / "project"), "/mnt/home/project", "rw")])
    assert box.exec("ls -laR /mnt/home; test ! -e /mnt/home/.ssh").ok
    assert contents(home) == before
    box.close()
    assert contents(home) == before
    box = make(mounts=[Mount(str(home), "/mnt/home")])
    os.kill(box._core.client.pid, 9)
    box.close()
    assert contents(home) == before


@pytest.mark.parametrize("what", ["home", "above", "below"])
@pytest.mark.parametrize("as_workspace", [True, False])
def test_a_home_is_not_mounted_read_write(make: Any, home: Path, what: str, as_workspace: bool) -> None:
    """What the user's shell reads at its start is not given away for writing; a directory in the home is, and reading is."""
    path = str({"home": home, "above": home.parent, "below": home / "project"}[what])

    def options(mode: Any) -> dict[str, Any]:
        return {"workspace": Workspace(path, mode=mode)} if as_workspace else {"mounts": [Mount(path, "/mnt/x", mode)]}

    assert make(**options("ro")).exec("true").ok
    if what == "below":
        assert make(**options("rw")).exec("true").ok
        return
    with pytest.raises(ConfigurationError, match="home directory"):
        make(**options("rw"))
