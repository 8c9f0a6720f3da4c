"""The two files: who may write them, what a stranger's may say, and what is never opened."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import ConfigurationError, Quotas
from isandbox._document import read_text
from isandbox._request import make_request
from isandbox._settings import default_type, read_settings
from isandbox._settings.files import LARGEST, Document, _value
from isandbox._settings.merge import merged
from isandbox._settings.table import BY_KEY, SETTINGS


def refused(pattern: str) -> str:
    with pytest.raises(ConfigurationError, match=pattern) as caught:
        read_settings()
    return str(caught.value)


def test_a_project_narrows(world: Any) -> None:
    """A lower quota, a shorter time and a higher isolation of a project file count."""
    world.user.write_text('min_isolation = "none"\nstart_timeout = 30\n[quotas]\nmemory = "1GiB"\n')
    world.project.write_text('min_isolation = "vm"\nstart_timeout = 3\n[quotas]\nmemory = "1MiB"\npids = 3\ncpus = 1\n')
    assert read_settings().values == {
        "min_isolation": "vm", "start_timeout": 3.0, "quotas.memory": 1 << 20, "quotas.pids": 3, "quotas.cpus": 1,
    }  # fmt: skip


def test_a_project_never_widens(world: Any) -> None:
    """What asks for more than holds without it changes nothing, whether the user said so or a default does."""
    world.user.write_text('min_isolation = "os"\n[quotas]\nmemory = "1MiB"\ncpus = 1\noutput = "none"\n')
    world.project.write_text(
        'min_isolation = "none"\nstart_timeout = 86400\n'
        '[quotas]\nmemory = "1GiB"\npids = 257\nopen_files = "none"\ncpus = "none"\ndisk = "none"\noutput = "none"\n'
    )
    settings = read_settings()
    assert settings.values == {"min_isolation": "os", "quotas.memory": 1 << 20, "quotas.cpus": 1, "quotas.output": None}
    assert set(settings.origins.values()) == {str(world.user)}
    assert (
        make_request("local", quotas=Quotas(memory=1, cpus=1, output=1), min_isolation="none")[1].policy.quotas.open_files
        == 1024
    )


@pytest.mark.parametrize(
    "line",
    [
        'type = "local"', 'type = "seccomp"', 'state_dir = "/tmp/x"', 'config = "x"', 'waive = ["landlock"]', 'policy = "p.toml"',
        '[[mounts]]\nsource = "/"\ntarget = "/x"', '[workspace]\npath = "/"', '[env]\nLD_PRELOAD = "x"', 'network = ["evil.org"]',
        "detached = true", '[seccomp]\nprofile = "debug"', '[quotas]\nmemory = "1GiB"\nwaive = "disk"',
    ],
)  # fmt: skip
def test_what_a_stranger_may_not_say(world: Any, line: str) -> None:
    """No backend, mount, waiver, variable, host or directory comes from a project file: each is an error that names the file."""
    world.project.write_text(line + "\n")
    assert refused("isandbox.toml: ").startswith(f"{world.project}: ")


def test_what_a_project_may_say_is_a_closed_list() -> None:
    """A new setting is closed to strangers until somebody decides otherwise."""
    assert {row.key for row in SETTINGS if row.project != "refused"} == {
        "min_isolation", "start_timeout", "quotas.cpus", "quotas.cpu_time", "quotas.memory", "quotas.disk", "quotas.pids",
        "quotas.open_files", "quotas.file_size", "quotas.output",
    }  # fmt: skip


def test_the_same_line_in_the_users_own_file(world: Any) -> None:
    """The control: what a stranger may not say the user may."""
    world.user.write_text('type = "local"\n')
    assert default_type() == "local"


def test_only_the_current_directory(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in a directory above is nobody's project."""
    world.project.write_text("[quotas]\npids = 3\n")
    below = world.project.parent / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert read_settings().values == {}


def test_files_are_read_once(world: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process keeps the files that it began with, wherever it goes, until the variables that name them change."""
    world.user.write_text("[quotas]\npids = 3\n")
    assert read_settings().values["quotas.pids"] == 3
    world.user.write_text("[quotas]\npids = 4\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ISANDBOX_QUOTAS_OPEN_FILES", "5")
    assert read_settings().values == {"quotas.pids": 3, "quotas.open_files": 5}
    monkeypatch.setenv("XDG_CONFIG_HOME", str(world.user.parents[1]))
    assert read_settings().values["quotas.pids"] == 4


def test_an_error_is_not_remembered(world: Any) -> None:
    """A file that is put right counts at the next call."""
    world.user.write_text("[quotas]\npids = -3\n")
    refused("quotas.pids")
    world.user.write_text("[quotas]\npids = 3\n")
    assert read_settings().values["quotas.pids"] == 3


def test_one_file_instead(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """ISANDBOX_CONFIG names the one file that is read, as the user's own word; empty, there is none; missing, it is an error."""
    world.user.write_text("[quotas]\npids = 3\n")
    world.project.write_text('[quotas]\npids = "none"\n')
    monkeypatch.setenv("ISANDBOX_CONFIG", "isandbox.toml")
    assert read_settings().values == {"quotas.pids": None}
    monkeypatch.setenv("ISANDBOX_CONFIG", "")
    assert read_settings().values == {}
    monkeypatch.setenv("ISANDBOX_CONFIG", "~/isandbox.toml")
    refused("ISANDBOX_CONFIG: ~/isandbox.toml does not exist")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_a_users_file_that_others_may_write(world: Any, mode: int) -> None:
    """Who else may write it could have: it is refused by name."""
    world.user.write_text("start_timeout = 3\n")
    world.user.chmod(mode)
    assert str(world.user) in refused(f"others may write.*{mode:04o}.*chmod go-w")


def test_a_users_directory_that_others_may_write(world: Any) -> None:
    """Who may put another file in its place is as good as its writer."""
    world.user.write_text("start_timeout = 3\n")
    world.user.parent.chmod(0o777)
    refused(rf"^{re.escape(str(world.user.parent))}: others may write")
    world.user.parent.chmod(0o755)
    assert read_settings().values == {"start_timeout": 3.0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_users_file_that_belongs_to_another(world: Any) -> None:
    """Another user's file is not the user's word, whatever its mode."""
    world.user.write_text("start_timeout = 3\n")
    os.chown(world.user, 54321, 54321)
    refused("belongs to uid 54321, not to you")
    os.chown(world.user, 0, 0)
    os.chown(world.user.parent, 54321, 54321)
    refused("belongs to uid 54321, not to you")


def test_a_users_file_may_be_a_link(world: Any, tmp_path: Path) -> None:
    """People keep such files in a repository of their own; what counts is who may write to what it leads to."""
    kept = tmp_path / "kept.toml"
    kept.write_text("start_timeout = 3\n")
    world.user.symlink_to(kept)
    assert read_settings().values == {"start_timeout": 3.0}
    kept.chmod(0o666)
    world.forget()
    refused("others may write")
    kept.unlink()
    refused("a link to nothing")


def test_a_projects_file_is_no_link(world: Any, tmp_path: Path) -> None:
    """A link in a stranger's directory leads where the stranger wants: it is refused, wherever it leads, and not read."""
    (tmp_path / "private").write_text("a private line")
    for target in (tmp_path / "private", "nothing", "/dev/zero"):
        world.project.unlink(missing_ok=True)
        world.project.symlink_to(target)
        assert "private line" not in refused("symbolic link")


@pytest.mark.parametrize("kind", ["directory", "fifo", "socket"])
@pytest.mark.parametrize("file", ["project", "user"])
def test_what_is_no_file(world: Any, kind: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FIFO is not waited for; it, a socket and a directory are refused without being opened."""
    path: Path = getattr(world, file)
    monkeypatch.chdir(path.parent)  # a socket's address must be short
    with socket.socket(socket.AF_UNIX) as listening:
        {
            "directory": path.mkdir,
            "fifo": lambda: os.mkfifo(path),
            "socket": lambda: listening.bind(path.name),
        }[kind]()
        monkeypatch.setattr(os, "open", None)  # nothing of it is
        monkeypatch.chdir(world.project.parent)
        refused("not a regular file")


def test_no_device_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device is known for one before it is opened: opening some has effects."""
    monkeypatch.setattr(os, "open", None)
    with pytest.raises(ConfigurationError, match="not a regular file"):
        read_text("/dev/zero", "x", most=10)


def test_a_file_that_is_exchanged_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was a file when it was looked at, and a FIFO or a link when it is opened, is neither waited for nor followed."""
    regular = tmp_path / "regular"
    regular.write_text("x")
    status = os.stat(regular)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(regular)
    monkeypatch.setattr(os, "stat", lambda *arguments, **options: status)
    with pytest.raises(ConfigurationError, match="not a regular file"):
        read_text(str(tmp_path / "fifo"), "x", most=10, follow=False)
    with pytest.raises(ConfigurationError, match="symbolic link"):
        read_text(str(tmp_path / "link"), "x", most=10, follow=False)
    assert read_text(str(tmp_path / "link"), "x", most=10) == "x"


def test_the_largest_file(world: Any) -> None:
    """64 KiB are read, one byte more is refused."""
    line = "start_timeout = 3\n#"
    world.project.write_text(line + "x" * (LARGEST - len(line)))
    assert read_settings().values == {"start_timeout": 3.0}
    world.forget()
    world.project.write_text(line + "x" * (LARGEST - len(line) + 1))
    refused(f"over the limit of {LARGEST} bytes")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"\xff", "byte 0 is not UTF-8"),
        (b"[quotas\n", "not valid TOML.*line 1"),
        (b"start_timeout = 1\nstart_timeout = 2\n", "not valid TOML.*line 2"),
        (b'start_timout = "3"\n', "start_timout: no such key; did you mean start_timeout"),
        (b"[quotas]\nmemroy = 3\n", "quotas.memroy: no such key; did you mean memory"),
        (b"[quotas.memory]\nmax = 3\n", "quotas.memory: bytes, or a size"),
        (b"quotas = 3\n", "quotas: a table, not a whole number"),
        (b'start_timeout = "3"\n', "start_timeout: seconds above 0.*; not '3'"),
        (b"start_timeout = nan\n", "start_timeout: seconds above 0"),
        (b"start_timeout = true\n", "start_timeout: seconds above 0"),
        (b"start_timeout = 1979-05-27\n", "start_timeout: seconds above 0"),
        (b'[quotas]\npids = "3"\n', "quotas.pids: a whole number above 0, or 'none'; not '3'"),
        (b"[quotas]\nmemory = []\n", r"quotas.memory: bytes.*; not \[\]"),
        (b'[quotas]\nmemory = "512MB"\n', "quotas.memory: bytes.*; not '512MB'"),
        (b"[quotas]\nmemory = " + b"9" * 3000 + b"\n", "quotas.memory: .*; not a number of"),
        (b'"\\u001b[2J" = 3\n', r"no such key"),
        (b'min_isolation = "unknown"\n', "min_isolation: one of none, os"),
    ],
)  # fmt: skip
def test_files_that_are_not_valid(world: Any, content: bytes, word: str) -> None:
    """The message has the file, the key and what is allowed, in few words that a terminal can be shown."""
    world.user.write_bytes(content)
    said = refused(word)
    assert said.startswith(f"{world.user}: ")
    assert said.isprintable()
    assert len(said) < len(str(world.user)) + 300


def test_a_home_that_cannot_be_looked_into(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No HOME, a relative one, a relative XDG_CONFIG_HOME, a file where a directory should be: no user's file."""
    world.user.write_text("start_timeout = 3\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert read_settings().values == {"start_timeout": 3.0}
    for home in ("", "relative", "/dev/null"):
        monkeypatch.setenv("HOME", home)
        assert read_settings().values == {}
    monkeypatch.delenv("HOME")
    assert read_settings().values == {}


VALID = st.integers(1, 2000) | st.sampled_from(["none", "1MiB", "os", "vm"])
VALUES = VALID | VALID | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
NARROWING = sorted(key for key, row in BY_KEY.items() if row.project != "refused")


@given(
    st.dictionaries(st.sampled_from(sorted(BY_KEY)), VALUES, max_size=4),
    st.dictionaries(st.sampled_from(NARROWING), VALUES, max_size=4),
)
def test_two_files_of_any_values(user: dict[str, Any], project: dict[str, Any]) -> None:
    """Whatever the two say, it is refused by name, or the project's has widened nothing."""
    documents = []
    for where, given_values, trusted in (("project", project, False), ("user", user, True)):
        try:
            checked = {key: _value(BY_KEY[key], value, where, trusted) for key, value in given_values.items()}
        except ConfigurationError as error:
            assert str(error).startswith(f"{where}: ")  # noqa: PT017 - not every example raises
            return
        documents.append(Document(where, checked, trusted))
    alone, both = merged({}, documents[1:]), merged({}, documents)
    for key, row in BY_KEY.items():
        before, after = alone.values.get(key, row.unset), both.values.get(key, row.unset)
        assert before == after or row.narrower(after, than=before)
        assert before == after or both.origins[key] == "project"
