"""What the mount plan says, on the real thing: targets on, below and beside what the view has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from isandbox import ConfigurationError, Mount, Workspace
from isandbox.sync import create_sandbox

pytestmark = pytest.mark.native


@pytest.fixture
def host(sandbox_tmp: Path, tmp_path: Path) -> Path:
    """A directory and a file of the host, with a known word in them."""
    (tmp_path / "dir" / "sub").mkdir(parents=True)
    (tmp_path / "dir" / "word").write_text("mounted\n")
    (tmp_path / "file").write_text("mounted\n")
    return tmp_path.resolve()


@pytest.mark.parametrize(
    "target",
    [
        "/opt/tool",
        "/data",
        "/etc/ssl",
        "/etc/own",
        "/home/user/data",
        "/home/other",
        "/tmp/a/b",
        "/var/lib/x",
        "/run/x",
        "/usr/share",
    ],
)
def test_a_directory(host: Path, target: str) -> None:
    """A directory stands where it was asked for, read-only, whatever the view has there."""
    with create_sandbox("seccomp", mounts=[Mount(str(host / "dir"), target)]) as sandbox:
        assert sandbox.exec(["cat", f"{target}/word"]).stdout == "mounted\n"
        assert sandbox.exec(f"echo x > {target}/word").exit_code != 0
        with pytest.raises(OSError, match=target):
            sandbox.files.write(f"{target}/new", "x")
    assert (host / "dir" / "word").read_text() == "mounted\n"


@pytest.mark.parametrize("target", ["/opt/tool", "/etc/passwd", "/etc/hosts", "/etc/own.conf", "/home/user/.rc", "/tmp/file"])
def test_a_file(host: Path, target: str) -> None:
    """A file too, also over one that the view makes itself."""
    with create_sandbox("seccomp", mounts=[Mount(str(host / "file"), target)]) as sandbox:
        assert sandbox.files.read_text(target) == "mounted\n"


def test_a_writable_file(host: Path) -> None:
    """One file of a read-only world can be written; its neighbours cannot be made."""
    with create_sandbox("seccomp", mounts=[Mount(str(host / "file"), "/data/file", "rw")]) as sandbox:
        assert sandbox.exec("echo changed > /data/file").ok
        assert sandbox.exec("echo x > /data/other").exit_code != 0
    assert (host / "file").read_text() == "changed\n"
    assert (host / "file").stat().st_uid == os.geteuid()


def test_one_below_the_other(host: Path) -> None:
    """The deeper mount is seen inside the shallower one, whichever comes first."""
    mounts = [Mount(str(host / "dir"), "/data/sub"), Mount(str(host / "dir"), "/data")]
    for order in (mounts, mounts[::-1]):
        with create_sandbox("seccomp", mounts=order) as sandbox:
            assert sandbox.exec("cat /data/word /data/sub/word").stdout == "mounted\n" * 2


@pytest.mark.parametrize("mode", [0o700, 0o755])
@pytest.mark.parametrize("kind", ["ro", "rw"])
def test_one_below_a_directory_that_is_its_owners_alone(host: Path, mode: int, kind: Literal["ro", "rw"]) -> None:
    """A mount below a workspace whose owner has closed it to all others stands there as below any other."""
    workspace = host / "workspace"
    (workspace / "place").mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(workspace, 54321, 54321)
        os.chown(workspace / "place", 54321, 54321)
    elif groups := [group for group in os.getgroups() if group != os.getegid()]:
        os.chown(workspace, -1, groups[0])  # a group that no sandbox has
    workspace.chmod(mode)
    mount = Mount(str(host / "dir"), "/workspace/place", kind)
    with create_sandbox("seccomp", workspace=Workspace(str(workspace)), mounts=[mount]) as sandbox:
        assert sandbox.exec("cat place/word; echo x > own").stdout == "mounted\n"
        assert sandbox.exec("echo x > place/new").ok == (kind == "rw")
        if os.geteuid() != 0:
            assert (workspace / "own").stat().st_uid == os.geteuid()


@pytest.mark.parametrize("target", ["/bin", "/var/tmp/x", "/etc/passwd/x", "/proc/x", "/dev/shm", "/usr/no-such-directory/x"])
def test_what_cannot_stand_is_refused(host: Path, target: str) -> None:
    """A place that is a link, a file, the sandbox's own, or not there in a directory of the host: ConfigurationError."""
    with (
        pytest.raises(ConfigurationError, match=target.split("/")[1]),
        create_sandbox("seccomp", mounts=[Mount(str(host / "dir"), target)]),
    ):
        raise AssertionError("not reached")


@pytest.mark.parametrize("backend", ["seccomp", "local"])
@pytest.mark.parametrize("mode", ["000", "111", "444", "555"])
def test_a_workspace_without_permissions_is_removed(backend: str, mode: str, sandbox_tmp: Path) -> None:
    """A command that takes its workspace's permissions away leaves nothing behind on the host."""
    before = set(sandbox_tmp.glob("isandbox-*"))
    with create_sandbox(backend) as sandbox:
        assert sandbox.exec(f"mkdir -p a/b && touch a/c && chmod {mode} a/b a . || true").exit_code == 0
    assert set(sandbox_tmp.glob("isandbox-*")) == before
