"""Attacks on places of a workspace that the caller denies: `Workspace(deny=)`, for what is there when the sandbox is created."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from isandbox import ConfigurationError, Mount, UnsupportedError, Workspace
from isandbox_backends._shared.plan import Cover, Record

pytestmark = pytest.mark.native

DENY = (".env", "conf/deep/keys", "conf/one.pem")


@pytest.fixture
def canary() -> str:
    return f"canary-{secrets.token_hex(16)}"


@pytest.fixture
def workspace(tmp_path: Path, canary: str) -> Path:
    place = tmp_path.resolve() / "ws"
    for name in (".env", "conf/one.pem", "conf/deep/keys/a", "conf/deep/keys/more/b"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(canary)
    (place / "conf" / "plain").write_text("plain")
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return place


ATTACKS = """
shutil = __import__("shutil")
os.chdir("/workspace")
denied = [".env", "conf/deep/keys", "conf/one.pem"]
above = ["conf/deep", "conf"]
out["read"] = [content(p) for p in (".env", "conf/one.pem", "conf/deep/keys/a", "conf/deep/keys/more/b",
               "/proc/self/cwd/.env", "conf/../.env", "/proc/self/root/workspace/conf/one.pem")]
out["listed"] = os.listdir("conf/deep/keys")
out["write"] = [opened(p, os.O_WRONLY) for p in (".env", "conf/one.pem")] + [opened("conf/deep/keys/new", os.O_WRONLY | os.O_CREAT)]
out["replace"] = []
open("evil", "w").write("evil")
os.mkdir("evil-d")
for place in denied + above:
    out["replace"] += [attempt(os.rename, place, "moved"), attempt(os.link, place, "linked") if place not in above else "EPERM",
                       attempt(os.rename, "evil-d" if os.path.isdir(place) else "evil", place),
                       call(NR["renameat2"], -100, place.encode(), -100, b"evil-d", 2),
                       attempt(os.rmdir if os.path.isdir(place) else os.unlink, place), attempt(os.symlink, "/etc", place)]
os.symlink("conf/one.pem", "link")
out["read"].append(content("link"))
out["free"] = [attempt(os.rename, "evil", "conf/deep/evil"), attempt(os.rename, "conf/plain", "plain"),
               attempt(os.link, "plain", "conf/deep/plain"), attempt(os.mkdir, "conf/deep/other")]
shutil.rmtree("conf", ignore_errors=True)
out["left"] = sorted(os.path.join(t, n) for t, ds, fs in os.walk("conf") for n in ds + fs)
"""


def test_denied_places(make: Any, probes: Any, workspace: Path, canary: str) -> None:
    """Nothing of them is read, written, moved or replaced, nor what they are in; the rest of the workspace works as ever."""
    found = probes.run(make(workspace=Workspace(str(workspace), deny=DENY)), ATTACKS)
    assert canary not in str(found)
    assert set(found["read"]) == {"", "ENOENT"}
    assert found["listed"] == []
    assert set(found["write"]) <= {"EROFS", "EACCES"}
    assert set(found["replace"]) <= {"EBUSY", "EXDEV", "EPERM", "ENOTEMPTY", "EEXIST"}
    assert set(found["free"]) == {"ok"}
    assert found["left"] == ["conf/deep", "conf/deep/keys", "conf/one.pem"]
    kept = [path for path in workspace.rglob("*") if path.is_file() and not path.is_symlink() and path.read_text() == canary]
    assert sorted(str(path.relative_to(workspace)) for path in kept) == [
        ".env",
        "conf/deep/keys/a",
        "conf/deep/keys/more/b",
        "conf/one.pem",
    ]


def test_each_part_is_needed(make: Any, probes: Any, workspace: Path, canary: str) -> None:
    """Without the covers everything is read; without the pins alone the directory above is moved."""

    def without(*, pins: bool) -> Any:
        def edit(plan: list[Record]) -> list[Record]:
            return [record for record in plan if not (isinstance(record, Cover) and record.in_store is pins)]

        return make(workspace=Workspace(str(workspace), deny=DENY), edit=edit)

    assert (
        probes.run(without(pins=True), "out['moved'] = attempt(os.rename, '/workspace/conf', '/workspace/m')")["moved"] == "ok"
    )
    (workspace / "m").rename(workspace / "conf")
    assert probes.run(without(pins=False), "out['read'] = content('/workspace/.env')")["read"] == canary


def test_git_takes_a_cover_for_an_empty_file(make: Any, workspace: Path) -> None:
    """What stands there is a regular file or a directory: programs that walk a tree are not stopped by it."""
    box = make(workspace=Workspace(str(workspace), deny=DENY))
    result = box.exec(
        "tar -cf /tmp/all.tar . && find . -type c -o -type b -o -type p && cp -r . /tmp/copy && wc -c < /tmp/copy/.env"
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == "0"


def test_a_mount_at_a_denied_place(make: Any, workspace: Path, tmp_path: Path) -> None:
    """What the caller mounts on a denied place, or into one, is seen: it was asked for."""
    (tmp_path / "given").write_text("given")
    (tmp_path / "given").chmod(0o644)
    given = str((tmp_path / "given").resolve())
    box = make(
        workspace=Workspace(str(workspace), deny=DENY),
        mounts=[Mount(given, "/workspace/.env"), Mount(given, "/workspace/conf/deep/keys/x/y")],
    )
    assert box.exec("cat .env conf/deep/keys/x/y; ls conf/deep/keys").stdout == "givengivenx\n"


AGAIN = """
places = [top + name for top, names in SEEN.items() for name in names]
out["read"] = [content(place + "/a" if os.path.isdir(place) else place) for place in places]
out["written"] = [opened(place, os.O_WRONLY) for place in places if not os.path.isdir(place)]
out["moved"] = [attempt(os.rename, place, place + "-moved") for place in [*places, "/conf/deep", "/parent/ws/conf"]]
out["plain"] = [content("/conf/plain"), content("/parent/ws/conf/plain")]
"""


def test_the_same_tree_mounted_again(make: Any, probes: Any, workspace: Path, canary: str) -> None:
    """What is denied is so as well where a mount shows the workspace, a part of it or what it is in once more; the rest is seen."""
    mounts = [
        Mount(str(workspace / "conf"), "/conf", "rw"),
        Mount(str(workspace.parent), "/parent", "rw"),
        Mount(str(workspace), "/workspace/conf/deep", "ro"),
    ]
    seen = {"/conf/": ["deep/keys", "one.pem"]} | dict.fromkeys(("/parent/ws/", "/workspace/conf/deep/"), DENY)
    found = probes.run(make(workspace=Workspace(str(workspace), deny=DENY), mounts=mounts), AGAIN, SEEN=seen)
    assert set(found["read"]) <= {"", "ENOENT"}
    assert set(found["written"]) <= {"EROFS", "EACCES"}
    assert set(found["moved"]) <= {"EBUSY", "EXDEV", "EROFS"}
    assert found["plain"] == ["plain", "plain"]
    kept = [path for path in workspace.rglob("*") if path.is_file() and path.read_text() == canary]
    assert len(kept) == 4


def test_a_mount_of_what_is_denied(make: Any, workspace: Path, canary: str) -> None:
    """A mount of a denied place itself, or of something in it, was asked for and shows it."""
    mounts = [Mount(str(workspace / "conf/deep/keys"), "/keys"), Mount(str(workspace / ".env"), "/env")]
    box = make(workspace=Workspace(str(workspace), deny=DENY), mounts=mounts)
    assert box.exec("cat /keys/a /keys/more/b /env; cat .env conf/deep/keys/a").stdout == canary * 3


@pytest.mark.parametrize("mode", ["rw", "ro"])
@pytest.mark.parametrize("closed", ["", "conf"])
def test_below_a_directory_of_the_owners_alone(make: Any, probes: Any, workspace: Path, mode: Any, closed: str) -> None:
    """Where the directory above is open to its owner only, and in a group that the sandbox does not have, the denied place is
    covered and nothing else.
    """
    group = 54399 if os.geteuid() == 0 else next((group for group in os.getgroups() if group != os.getegid()), None)
    if group is None:
        pytest.skip("this user is in no further group")
    os.chown(workspace / closed, -1, group)
    (workspace / closed).chmod(0o700)
    box = make(workspace=Workspace(str(workspace), mode=mode, deny=DENY))
    body = "out.update({name: content('/workspace/' + name) for name in ('conf/plain', 'conf/one.pem', '.env')})"
    body += "\nout['moved'] = attempt(os.rename, '/workspace/conf', '/workspace/m')"
    found = probes.run(box, body)
    assert found.pop("moved") in ("EBUSY", "EROFS", "EOVERFLOW")
    assert found == {"conf/plain": "plain", "conf/one.pem": "", ".env": ""}


@pytest.mark.parametrize("name", ["**/.env", "*.pem", "conf/?", "[a]"])
def test_patterns_are_refused(make: Any, workspace: Path, name: str) -> None:
    """A pattern would have to hold for files that do not exist yet, which this backend cannot do: UnsupportedError."""
    with pytest.raises(UnsupportedError, match="pattern") as caught:
        make(workspace=Workspace(str(workspace), deny=(name,)))
    assert caught.value.option == "workspace.deny"


@pytest.mark.parametrize(
    "name", ["absent", "conf/absent", ".env/x", "/etc/passwd", "..", "../ws/.env", ".", "conf/..", "a\0b", ""]
)
def test_what_is_no_place_is_refused(make: Any, workspace: Path, name: str) -> None:
    """What is not there, or not below the workspace, is a ConfigurationError: it would deny nothing."""
    with pytest.raises(ConfigurationError, match="workspace deny"):
        make(workspace=Workspace(str(workspace), deny=(name,)))
