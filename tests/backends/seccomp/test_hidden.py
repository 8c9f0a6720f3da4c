"""What is hidden: the data, the functions on it, and where they look on this machine."""

from __future__ import annotations

import os
import tempfile
import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import SandboxError
from isandbox._settings.table import BY_VARIABLE
from isandbox_backends.seccomp import hidden, session
from isandbox_backends.seccomp.hidden import below, of_environment, of_home, outermost

PATHS = st.lists(st.sampled_from(["a", "b", "a0", "a-", ".a", "é"]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@given(PATHS, st.lists(PATHS))
def test_below(path: str, places: list[str]) -> None:
    """Exactly the places in the directory, at any depth, are below it; a name that begins alike is not."""
    assert sorted(below(path, sorted(places))) == sorted(place for place in places if place.startswith(f"{path}/"))


@given(st.lists(PATHS))
def test_outermost(paths: list[str]) -> None:
    """What is left holds all that was given, and nothing in it is below another."""
    left = outermost(paths)
    assert all(any(f"{path}/".startswith(f"{place}/") for place in left) for path in paths)
    assert not [(one, two) for one in left for two in left if one != two and one.startswith(f"{two}/")]
    assert len(left) == len(set(left))


@pytest.mark.parametrize("name", hidden.HOME)
def test_names_of_a_home(name: str) -> None:
    """Each is a plain relative path: it can be looked up, and no pattern hides in it."""
    assert os.path.normpath(name) == name
    assert not name.startswith(("/", ".."))
    assert not set(name) & set("*?[")


@pytest.mark.parametrize(
    "name",
    [
        ".ssh", ".gnupg", ".aws", ".config/gcloud", ".azure", ".kube", ".docker", ".netrc", ".git-credentials", ".pypirc",
        ".config/git/credentials", ".npmrc", ".config/gh", ".password-store", ".local/share/keyrings", ".bash_history",
        ".zsh_history", ".mozilla", ".config/google-chrome", ".local/state/isandbox",
    ],
)  # fmt: skip
def test_what_is_promised_for_a_home(name: str) -> None:
    """The credentials that the documentation names are hidden."""
    assert f"/home/u/{name}" in of_home("/home/u")


@pytest.mark.parametrize(
    "place",
    [
        "/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio", "/run/snapd.socket", "/run/dbus", "/run/user",
        "/run/systemd/private", "/run/WSL", "/mnt/wslg", "/etc/shadow", "/etc/ssh", "/var/lib/isandbox", "/var/run/docker.sock",
    ],
)  # fmt: skip
def test_what_is_promised_for_the_machine(place: str) -> None:
    """Sockets that give orders to services, and the machine's own secrets, are hidden."""
    assert place in hidden.MACHINE


@pytest.mark.parametrize(
    ("variables", "places"),
    [
        ({"SSH_AUTH_SOCK": "/tmp/ssh-1/agent.2"}, {"/tmp/ssh-1/agent.2"}),
        ({"DOCKER_HOST": "unix:///run/x.sock"}, {"/run/x.sock"}),
        ({"DOCKER_HOST": "tcp://1.2.3.4:5"}, set()),
        ({"DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/7/bus,guid=ab"}, {"/run/user/7/bus"}),
        ({"KUBECONFIG": "/a/one:/b/two"}, {"/a/one", "/b/two", "/a/one:/b/two"}),
        ({"TMUX": "/tmp/tmux-7/default,12,0"}, {"/tmp/tmux-7/default", "/tmp/tmux-7/default,12,0"}),
        ({"KRB5CCNAME": "FILE:/tmp/krb5cc_7"}, {"/tmp/krb5cc_7"}),
        ({"NETRC": "/h/a,b"}, {"/h/a", "/h/a,b"}),
        ({"NETRC": "relative/x"}, set()),
        ({"NETRC": "/h/../k//x/"}, {"/k/x"}),
        ({"NETRC": "//k"}, {"/k"}),
        ({"PATH": "/a"}, set()),
    ],
)
def test_what_variables_name(variables: dict[str, str], places: set[str]) -> None:
    """A path is found in each form in which programs write one; what is no absolute path is not taken for one."""
    assert set(of_environment(variables)) == places


def test_what_our_own_variables_name() -> None:
    """Settings and state are hidden wherever a variable puts them: code inside could change what holds the next time."""
    own = {name for name, row in BY_VARIABLE.items() if row.allowed.startswith("the path of")}
    assert own == {"ISANDBOX_CONFIG", "ISANDBOX_STATE_DIR"}
    assert set(of_environment(dict.fromkeys(own, "/srv/own"))) == {"/srv/own"}
    assert own <= set(hidden.VARIABLES)


def test_where_programs_look_instead() -> None:
    """With XDG_CONFIG_HOME set, what would be below .config is hidden there."""
    places = of_environment({"XDG_CONFIG_HOME": "/etc/mine", "CARGO_HOME": "relative"})
    assert {"/etc/mine/gh", "/etc/mine/git/credentials"} <= set(places)
    assert not [place for place in places if "relative" in place]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path.resolve() / "home"
    place.mkdir()
    for name in hidden.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(place))
    return place


def test_below_a_mounted_home(home: Path) -> None:
    """Whatever holds the home has its secrets hidden, the home itself too; a project in it has nothing to hide."""
    for path in (home.parent, home):
        assert f"{home}/.ssh" in session.hidden_below([str(path)])[str(path)]
    project = str(home / "project")
    assert session.hidden_below([project]) == {project: ()}
    assert session.hidden_below([str(home / ".ssh")]) == {f"{home}/.ssh": ()}


def test_where_links_lead(home: Path) -> None:
    """A secret that is a link is hidden where it really is, also when the link is made later; and no longer once it is gone."""
    dotfiles = home / "dotfiles"
    (dotfiles / "ssh").mkdir(parents=True)
    assert session.hidden_below([str(dotfiles)])[str(dotfiles)] == ()
    (home / ".ssh").symlink_to("dotfiles/ssh")
    assert session.hidden_below([str(dotfiles)])[str(dotfiles)] == (f"{dotfiles}/ssh",)
    (home / ".ssh").unlink()
    os.utime(home, ns=(1, 1))
    assert session.hidden_below([str(dotfiles)])[str(dotfiles)] == ()


@pytest.mark.parametrize("text", [".", "..", "/", "loop", "missing/x"])
def test_links_that_lead_nowhere_useful(home: Path, text: str) -> None:
    """A secret that is a link to its own directory, above it, in a circle or to nothing hides no more than itself."""
    (home / "loop").symlink_to("loop")
    (home / ".ssh").symlink_to(text)
    project = str(home / "project")
    assert session.hidden_below([project]) == {project: ()}


def test_a_variable_names_a_file_of_the_project(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that the environment names are hidden wherever they are."""
    project = str(home / "project")
    monkeypatch.setenv("KUBECONFIG", f"{project}/kube.yaml")
    assert f"{project}/kube.yaml" in session.hidden_below([project])[project]


def test_a_mounted_temporary_directory(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets of terminals and agents, and other sandboxes' directories, are hidden there by the beginnings of their names."""
    place = tmp_path.resolve() / "tmp"
    place.mkdir()
    for name in ("isandbox-12", "tmux-7", "ssh-abc", ".X11-unix", "project", "sshd"):
        (place / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    names = {path.removeprefix(f"{place}/") for path in session.hidden_below([str(place)])[str(place)]}
    assert names == {"isandbox-12", "tmux-7", "ssh-abc", ".X11-unix"}
    assert session.hidden_below([str(place / "project")])[str(place / "project")] == ()


def test_a_temporary_directory_that_cannot_be_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be looked at is not taken for empty."""

    def refuse(path: Any) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(session.os, "listdir", refuse)
    with pytest.raises(SandboxError, match="cannot be looked up"):
        session.hidden_below(["/tmp"])


def test_homes_of_this_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$HOME and the home in the user data base are both ones; a link to one is resolved."""
    assert str(home) in session.own_homes()
    link = home.parent / "link"
    link.symlink_to(home)
    monkeypatch.setenv("HOME", str(link))
    assert str(home) in session.own_homes()
    monkeypatch.setenv("HOME", "/")
    assert "/" not in session.own_homes()


def test_a_user_data_base_that_lists_nobody(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is known by number only has a home as well: this user, and root."""
    monkeypatch.setattr(session.pwd, "getpwall", list)
    monkeypatch.setattr(session.pwd, "getpwuid", lambda uid: types.SimpleNamespace(pw_uid=uid, pw_dir=f"{home}-{uid}"))
    for remembered in (session._users, session._homes, session._places):
        remembered.cache_clear()
    try:
        found = session.hidden_below([str(home.parent)])[str(home.parent)]
        assert {f"{home}-0/.ssh", f"{home}-{os.geteuid()}/.ssh"} <= set(found)
        assert f"{home}-{os.geteuid()}" in session.own_homes()
    finally:
        for remembered in (session._users, session._homes, session._own, session._places):
            remembered.cache_clear()


def test_a_user_data_base_that_cannot_be_read(home: Path, exhausted: Callable[[], AbstractContextManager[None]]) -> None:
    """A process that cannot open it is told so instead of that nobody has a home, and looks again later."""
    remembered = (session._users, session._homes, session._own, session._places)
    for cache in remembered:
        cache.cache_clear()
    with exhausted():
        for look in (session.own_homes, lambda: session.hidden_below([str(home)])):
            with pytest.raises(SandboxError, match="cannot be looked up"):
                look()
    assert {entry.pw_uid for entry in session._users(os.geteuid())} >= {0}
    assert session.own_homes()
    for cache in remembered:
        cache.cache_clear()


def test_no_temporary_directory_is_tried_out(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is to be written, looking for what to hide writes nothing and does not fail."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", lambda *_: pytest.fail("tried"))
    place = tmp_path.resolve() / "mine"
    (place / "isandbox-1").mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(place))
    assert session.hidden_below([str(place)])[str(place)] == (f"{place}/isandbox-1",)


def test_where_the_machines_own_links_lead(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place of the machine that has been moved to another disk is hidden there as well."""
    disk = home.parent / "disk"
    (disk / "docker").mkdir(parents=True)
    place = home.parent / "var-lib-docker"
    place.symlink_to(disk / "docker")
    monkeypatch.setattr(session, "MACHINE", (str(place),))
    remembered = (session._of_machine, session._places)
    for cache in remembered:
        cache.cache_clear()
    try:
        assert session.hidden_below([str(disk)])[str(disk)] == (f"{disk}/docker",)
    finally:
        for cache in remembered:
            cache.cache_clear()
