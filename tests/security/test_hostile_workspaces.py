"""Workspaces and mounts that a hostile run has prepared, or changes meanwhile: nothing outside is read, changed or mounted."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isandbox import BackendUnavailableError, ConfigurationError, Mount, Workspace
from isandbox.testing.containment.host import contents
from isandbox_backends._shared.plan import Allow, Record

pytestmark = pytest.mark.native

MOST, ENOUGH = 5_000, 10


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A tree that is not mounted, open to everybody, with a canary in it and a directory for a mount to stand on."""
    place = tmp_path.resolve() / "outside"
    (place / "sub").mkdir(parents=True)
    (place / "canary").write_text(f"canary-{secrets.token_hex(16)}")
    (place / "sub" / "canary").write_text(f"canary-{secrets.token_hex(16)}")
    for path in (tmp_path, place, *place.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return place


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "ws"
    place.mkdir(mode=0o777)
    return place


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """What the caller mounts."""
    place = tmp_path.resolve() / "given"
    place.mkdir(mode=0o755)
    (place / "word").write_text("given")
    return place


@pytest.fixture(autouse=True)
def _the_outside_is_as_before(outside: Path) -> Iterator[None]:
    """After each test: no entry outside has changed, and no mount has come out of a sandbox."""
    before = contents(outside)
    yield
    assert contents(outside) == before
    mounts = Path("/proc/self/mountinfo").read_text()  # of others, who may mount meanwhile, conftest.py takes care
    assert str(outside.parent) not in mounts


READ_AND_WRITE = """
def attack(path):
    out[path] = [content(path), content(path + "/canary"), opened(path + "/new", os.O_WRONLY | os.O_CREAT),
                 opened(path, os.O_WRONLY | os.O_TRUNC), attempt(os.chmod, path, 0o600), attempt(os.utime, path, (1, 1)),
                 attempt(os.rename, path + "/canary", path + "/moved"), attempt(os.truncate, path + "/canary", 0)]
for path in PATHS:
    attack(path)
"""

LINKS = {
    "absolute": "{outside}",
    "relative": "../outside",
    "root": "/",
    "dangling": "/nowhere/at/all",
    "loop": "name",
    "magic": "/proc/1/root{outside}",
    "descriptor": "/proc/self/fd/3",
    "long": "../" * 40 + "{outside}",
}


@pytest.mark.parametrize("link", LINKS)
def test_a_link_at_a_mount_point(make: Any, probes: Any, workspace: Path, outside: Path, link: str) -> None:
    """A mount on a link, or below one, is refused; the workspace itself can be used, and the link leads nowhere."""
    (workspace / "name").symlink_to(LINKS[link].format(outside=outside))
    for target in ("/workspace/name", "/workspace/name/sub"):
        with pytest.raises(ConfigurationError, match=target.removeprefix("/")):
            make(workspace=str(workspace), mounts=[Mount(str(outside / "sub"), target)])
    found = probes.run(make(workspace=str(workspace)), READ_AND_WRITE, PATHS=["/workspace/name"])
    assert "canary-" not in str(found)


@pytest.mark.parametrize("link", ["absolute", "relative", "root", "dangling", "loop"])
def test_a_link_where_something_is_denied(make: Any, workspace: Path, outside: Path, link: str) -> None:
    """A denied place that is a link, or lies below one, is refused: it would hide nothing."""
    (workspace / "name").symlink_to(LINKS[link].format(outside=outside))
    for name in ("name", "name/sub", "name/canary"):
        with pytest.raises(ConfigurationError, match=r"symbolic link|does not exist|cannot be looked at"):
            make(workspace=Workspace(str(workspace), deny=(name,)))


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(path.parent):
        listener.bind(path.name)


def device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 1))  # /dev/mem: never opened, as the mount is nodev


def git_file(path: Path) -> None:
    path.write_text("gitdir: ../outside\n")


KINDS = [fifo, unix_socket, git_file]
KINDS += [device] if os.geteuid() == 0 else []  # nobody else can make one


@pytest.mark.parametrize(
    "entry", [(name, kind) for name in (".git", ".ssh") for kind in KINDS], ids=lambda entry: f"{entry[1].__name__} {entry[0]}"
)
def test_an_odd_entry(
    make: Any, probes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: tuple[str, Callable[[Path], None]]
) -> None:
    """A FIFO, a socket, a device or a pointer file hangs nothing, can be hidden and denied, and is no place for a directory."""
    (name, kind), workspace, given = entry, tmp_path.resolve() / "ws", tmp_path.resolve() / "given"
    for place in (workspace, given):
        place.mkdir(mode=0o755)
    kind(workspace / name)
    with pytest.raises(ConfigurationError, match=f"workspace/{name}"):
        make(workspace=str(workspace), mounts=[Mount(str(given), f"/workspace/{name}/x")])
    look = f"out['kind'] = stat.S_IFMT(os.lstat('/workspace/{name}').st_mode)\nout['read'] = opened('/workspace/{name}')"
    assert probes.run(make(workspace=str(workspace)), look)["kind"] == stat.S_IFMT((workspace / name).lstat().st_mode)
    denied = make(workspace=Workspace(str(workspace), deny=(name,)))
    assert probes.run(denied, look) == {"kind": stat.S_IFREG, "read": "ok"}
    monkeypatch.setenv("NETRC", str(workspace / name))
    assert probes.run(make(workspace=str(workspace)), look) == {"kind": stat.S_IFREG, "read": "ok"}
    monkeypatch.setenv("HOME", str(workspace))
    assert make(workspace=Workspace(str(workspace), mode="ro")).exec("true").ok


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot make a device")
def test_a_device_in_a_workspace_is_dead(make: Any, probes: Any, workspace: Path) -> None:
    """A device node that is there already cannot be opened."""
    os.mknod(workspace / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (workspace / "null").chmod(0o666)
    probe = "out['node'] = opened('/workspace/null')\nout['control'] = opened('/dev/null')"
    assert probes.run(make(workspace=str(workspace)), probe) == {"node": "EACCES", "control": "ok"}


@pytest.mark.parametrize("name", [b"new\nline", b"not-utf-8-\xff\xfe", b"-rf", b" ", b"x" * 255, "ünï".encode()])
def test_names(make: Any, probes: Any, workspace: Path, name: bytes) -> None:
    """Entries with any name are there, can be denied, and their cover is of that name."""
    path = os.path.join(os.fsencode(workspace), name)
    os.mkdir(path)
    with open(os.path.join(path, b"in"), "w") as file:
        file.write("in")
    probe = "out['seen'] = [[os.fsencode(n).hex(), len(os.listdir('/workspace/' + n))] for n in os.listdir('/workspace')]"
    assert probes.run(make(workspace=str(workspace)), probe)["seen"] == [[name.hex(), 1]]
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return  # a path of the interface is text
    denied = make(workspace=Workspace(str(workspace), deny=(text,)))
    assert probes.run(denied, probe)["seen"] == [[name.hex(), 0]]


@pytest.mark.parametrize("place", ["there", "absent", "file"])
def test_a_target_in_the_workspace(make: Any, workspace: Path, given: Path, place: str) -> None:
    """A mount stands on a directory that is there; where none is, the start is refused and none is made."""
    if place == "there":
        (workspace / "sub").mkdir()
    elif place == "file":
        (workspace / "sub").write_text("a file")
    before = contents(workspace)
    options = {"workspace": str(workspace), "mounts": [Mount(str(given), "/workspace/sub")]}
    if place == "there":
        box = make(**options)
        assert box.exec("cat sub/word").stdout == "given"
        assert not box.exec("echo x > sub/new").ok
        assert box.exec("mv sub elsewhere").exit_code != 0
    else:
        with pytest.raises(ConfigurationError, match="workspace/sub"):
            make(**options)
    assert contents(workspace) == before


def test_a_read_only_place_in_a_writable_workspace(make: Any, workspace: Path) -> None:
    """A directory that is mounted over itself read-only stays so, whatever is done to the directories above it."""
    (workspace / ".git" / "hooks").mkdir(parents=True)
    for path in (workspace / ".git", workspace / ".git" / "hooks"):
        path.chmod(0o777)
    box = make(workspace=str(workspace), mounts=[Mount(str(workspace / ".git/hooks"), "/workspace/.git/hooks")])
    attack = "mv .git g; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; rm -rf .git; mv .git/hooks .git/h; rmdir .git/hooks"
    box.exec(attack + "; touch .git/index")
    assert sorted(path.name for path in workspace.rglob("*")) == [".git", "hooks", "index"]


# -- races


SWAPPER = """
import os, random, shutil, signal, sys, time
ended, chance = [], random.Random(1)
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
place, aside, outside, how = sys.argv[1:]
steps = {
    "link": [lambda: os.rename(place, aside), lambda: os.symlink(outside, place), lambda: os.unlink(place),
             lambda: os.rename(aside, place)],
    "rename": [lambda: os.rename(place, aside), lambda: os.rename(aside, place)],
    "remove": [lambda: shutil.rmtree(place), lambda: os.mkdir(place, 0o777)],
}[how]
print("begun", flush=True)
for turn in range(1_000_000):
    for step in steps:
        try:
            step()
        except OSError:
            pass
        time.sleep(chance.random() * (0.004 if step is steps[-1] else 0.0004))  # there for most of the time, for any part of a start
    if ended:
        break
print(turn, flush=True)
"""


@contextlib.contextmanager
def swapped(place: Path, aside: Path, outside: Path, how: str) -> Iterator[None]:
    """A process beside us changes the host's tree all the time, for as long as the block runs; it did so many times."""
    command = [sys.executable, "-c", SWAPPER, *map(str, (place, aside, outside, how))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            yield
            process.terminate()
            assert int(process.stdout.readline()) > 10
        finally:
            process.kill()


def outcomes(make: Any, command: str, **options: Any) -> str:
    """What the command said in many sandboxes, until enough were made and enough refused; any other error goes up."""
    said, made, refused = [], 0, 0
    for _ in range(MOST):
        try:
            box = make(**options)
        except ConfigurationError:
            refused += 1
        except BackendUnavailableError as error:
            # What stood where it was planned has moved since; the first process sees that when it looks itself over.
            if "the layer mounts" not in str(error):
                raise
            refused += 1
        else:
            result = box.exec(command)
            said.append(result.stdout + result.stderr)
            box.close()
            made += 1
        if made >= ENOUGH and (refused >= ENOUGH or made >= 4 * ENOUGH):
            return "".join(said)
    raise AssertionError(f"{made} made, {refused} refused: the race did not take place")


@pytest.mark.parametrize("what", ["source", "above the source", "target", "above the target", "denied", "hidden"])
def test_a_directory_swapped_for_a_link(
    make: Any, workspace: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """While a directory is a link every other moment, a start is refused or shows what was asked for; never what is outside."""
    place, aside, given = workspace / "d", workspace / "d2", outside.parent / "given"
    given.mkdir(mode=0o755)
    (place / "sub").mkdir(parents=True)
    (place / "sub" / "word").write_text("given")
    options: dict[str, Any] = {
        "source": {"mounts": [Mount(str(place), "/data")]},
        "above the source": {"mounts": [Mount(str(place / "sub"), "/data")]},
        "target": {"workspace": str(workspace), "mounts": [Mount(str(given), "/workspace/d")]},
        "above the target": {"workspace": str(workspace), "mounts": [Mount(str(given), "/workspace/d/sub")]},
        "denied": {"workspace": Workspace(str(workspace), deny=("d/sub",))},
        "hidden": {"workspace": str(workspace)},
    }[what]
    if what == "hidden":
        monkeypatch.setenv("NETRC", str(place / "sub" / "word"))
    with swapped(place, aside, outside, "link"):
        found = outcomes(make, "find /data /workspace -type f -exec cat {} + ; ls /data/canary /workspace/d/canary", **options)
    assert "canary-" not in found


@pytest.mark.parametrize("place", ["/home/user", "/var/tmp"])
def test_a_rule_at_a_link(make: Any, place: str) -> None:
    """A place of a Landlock rule that has become a link meanwhile, as /var/tmp is one, ends the start: the rule would be one for
    where the link leads.
    """

    def edit(plan: list[Record]) -> list[Record]:
        return [
            replace(record, path=place) if isinstance(record, Allow) and record.path == "/tmp" else record for record in plan
        ]

    if place == "/home/user":
        assert make(edit=edit).exec("true").ok
    else:
        with pytest.raises(BackendUnavailableError, match="landlock path /var/tmp: Too many levels"):
            make(edit=edit)


@pytest.mark.parametrize("how", ["rename", "remove"])
def test_a_workspace_that_goes_away(make: Any, tmp_path: Path, workspace: Path, outside: Path, how: str) -> None:
    """A workspace that is renamed or removed while its sandbox is made gives a sandbox, or a ConfigurationError."""
    aside = tmp_path / "aside"
    with swapped(workspace, aside, outside, how):
        assert outcomes(make, "echo made", workspace=str(workspace)).count("made") >= ENOUGH


@pytest.mark.full
def test_a_hundred_thousand_files(make: Any, workspace: Path) -> None:
    """So many entries are all there, and nobody counts them to make the sandbox."""
    for number in range(100_000):
        (workspace / f"{number:06}").touch()
    for mode in ("rw", "ro"):
        box = make(workspace=Workspace(str(workspace), mode=mode))
        assert box.exec("ls -U | wc -l").stdout.strip() == "100000"
