"""Files that are the user's own word: no other user, and no code inside, puts something else in their place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from isandbox import ConfigurationError, Mount, Workspace
from isandbox._document import check_way
from isandbox._request import make_request
from isandbox._settings import read_settings
from isandbox._settings.files import document

OPEN = "start_timeout = 3\n"


@pytest.fixture
def named(world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that ISANDBOX_CONFIG names, in a directory of its own."""
    path = tmp_path / "named" / "settings.toml"
    path.parent.mkdir(mode=0o755)
    path.write_text(OPEN)
    path.chmod(0o644)
    monkeypatch.setenv("ISANDBOX_CONFIG", str(path))
    return path


@pytest.mark.parametrize(
    ("mode", "word"), [(0o777, "others may write"), (0o775, "others may write"), (0o1777, None), (0o755, None)]
)
def test_a_directory_where_others_may_write(named: Path, mode: int, word: str | None) -> None:
    """Who may rename there could put another file of ours in its place, one of a checkout; in a sticky directory nobody can."""
    named.parent.chmod(mode)
    if word is None:
        assert read_settings().values == {"start_timeout": 3.0}
    else:
        with pytest.raises(ConfigurationError, match=rf"^ISANDBOX_CONFIG: .*its directory: {word}"):
            read_settings()


def test_where_a_link_leads(named: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link of ours is followed, but not into a directory where others may write."""
    (tmp_path / "mine").mkdir(mode=0o755)
    (tmp_path / "mine" / "link").symlink_to(named)
    monkeypatch.setenv("ISANDBOX_CONFIG", str(tmp_path / "mine" / "link"))
    assert read_settings().values == {"start_timeout": 3.0}
    named.parent.chmod(0o777)
    with pytest.raises(ConfigurationError, match="the directory that it leads to: others may write"):
        check_way(str(tmp_path / "mine" / "link"), "x")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_link_of_another_user(tmp_path: Path) -> None:
    """In a sticky directory another user's link may lead to a file of ours that was never meant as settings."""
    (tmp_path / "file").write_text(OPEN)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "link").symlink_to(tmp_path / "file")
    check_way(str(shared / "link"), "x")
    os.lchown(shared / "link", 54321, 54321)
    with pytest.raises(ConfigurationError, match=r"^x: the link: it belongs to uid 54321"):
        check_way(str(shared / "link"), "x")


def options(directory: Path, mode: Any) -> list[dict[str, Any]]:
    return [{"workspace": Workspace(str(directory), mode)}, {"mounts": [Mount(str(directory), "/there", mode)]}]


@pytest.mark.native
@pytest.mark.parametrize("file", ["named", "user"])
def test_code_inside_does_not_write_settings(named: Path, world: Any, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """A workspace or mount in which code inside could write the user's settings, and so name ``local`` next time, is refused."""
    if file == "user":
        monkeypatch.delenv("ISANDBOX_CONFIG")
        world.user.write_text(OPEN)
        named = world.user
    for given in options(named.parent, "ro"):
        assert make_request("seccomp", **given)[1].start_timeout == 3.0
    for given in options(named.parent, "rw"):
        with pytest.raises(ConfigurationError, match=r"settings: .*lets code inside write to this file"):
            make_request("seccomp", **given)
    denied = Workspace(str(named.parent), deny=(named.name,))
    assert make_request("seccomp", workspace=denied)[1].start_timeout == 3.0
    assert make_request("local", workspace=str(named.parent))[1].start_timeout == 3.0


@pytest.mark.parametrize("key", ["quotas.memory", "quotas.cpus", "quotas.pids", "start_timeout"])
@pytest.mark.parametrize("value", ["[0x{}]", "{{a = [0x{}]}}", "0x{}"])
def test_numbers_of_thousands_of_digits(key: str, value: str) -> None:
    """One that Python refuses to write, also within a list, is an error of the file like any other."""
    with pytest.raises(ConfigurationError, match=f"^x: {key}: .*(thousands of digits|number of 16000 bits)"):
        document(f"{key} = {value.format('f' * 4000)}", "x", trusted=False)
