"""Removing what a command left, whatever it left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from isandbox._state.owner import current_process
from isandbox_backends._shared import scratch
from isandbox_backends._shared.scratch import make_scratch, remove_dead_scratch, remove_tree


@pytest.fixture
def tree(sandbox_tmp: Path) -> Path:
    return Path(make_scratch())


def nest(path: Path, depth: int) -> None:
    """Deeper than a path is long: by descriptors."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


def test_missing_is_fine(tree: Path) -> None:
    """Closing twice, or after somebody cleaned up, is no error."""
    remove_tree(str(tree))
    remove_tree(str(tree))
    assert not tree.exists()


def test_a_tree_deeper_than_python_recurses(tree: Path) -> None:
    """3,000 directories inside each other, with a file beside each tenth, are gone."""
    nest(tree, 3000)
    nest(tree / "d", 0)
    (tree / "d" / "file").write_text("x")
    remove_tree(str(tree))
    assert not tree.exists()


def test_directories_without_permissions(tree: Path) -> None:
    """A command may take every permission away, also from the directory that it was given."""
    for name in ("a", "b"):
        (tree / name / "inner" / "deep").mkdir(parents=True)
        (tree / name / "inner" / "file").write_text("x")
    for path in (tree / "a" / "inner" / "deep", tree / "a" / "inner", tree / "a", tree):
        path.chmod(0)
    remove_tree(str(tree))
    assert not os.path.lexists(tree)


@pytest.mark.parametrize("mode", [0o000, 0o111, 0o444, 0o555, 0o222])
def test_the_top_with_any_mode(tree: Path, mode: int) -> None:
    """The top too: it is the workspace, where a command may chmod what it likes."""
    (tree / "x" / "y").mkdir(parents=True)
    tree.chmod(mode)
    remove_tree(str(tree))
    assert not os.path.lexists(tree)


def test_links_are_removed_and_not_followed(tree: Path, tmp_path: Path) -> None:
    """What a link points to stays as it is, in mode too."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "keep").write_text("x")
    (tree / "sub").mkdir()
    for place in (tree, tree / "sub"):
        (place / "dir-link").symlink_to(outside)
        (place / "file-link").symlink_to(outside / "keep")
        (place / "dangling").symlink_to("nowhere")
    os.link(outside / "keep", tree / "hard")
    remove_tree(str(tree))
    assert not tree.exists()
    assert (outside / "keep").read_text() == "x"
    assert outside.stat().st_mode & 0o777 == 0o750


def test_a_link_in_the_place_of_the_tree_is_refused(tree: Path, tmp_path: Path) -> None:
    """The path itself is never followed: an error, and nothing removed."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "keep").write_text("x")
    tree.rmdir()
    tree.symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=str(tree)):
        remove_tree(str(tree))
    assert (tmp_path / "victim" / "keep").exists()
    tree.unlink()


@pytest.mark.parametrize("name", [b"new\nline", b"\xff\xfe", b" ", b"-rf", "é".encode(), b"x" * 255])
def test_names_of_any_bytes(tree: Path, name: bytes) -> None:
    """A name is bytes; none of them stops the removal."""
    path = os.path.join(os.fsencode(tree), name)
    os.makedirs(os.path.join(path, name))
    with open(os.path.join(path, b"f" + name[:200]), "wb"):
        pass
    remove_tree(str(tree))
    assert not tree.exists()


def test_names_that_look_like_ours(tree: Path) -> None:
    """The names that directories are moved to cannot be taken in advance by a command."""
    pid = os.getpid()
    for number in range(5):
        place = tree / f".isandbox-removing-{number}-{pid}"
        (place / "full" / "er").mkdir(parents=True)
    (tree / "a" / "b" / "c").mkdir(parents=True)
    (tree / ".isandbox-removing-5-0").write_text("x")
    remove_tree(str(tree))
    assert not tree.exists()


def test_fifos_sockets_and_many_entries(tree: Path) -> None:
    """Special files are unlinked without being opened, which could block for ever."""
    os.mkfifo(tree / "fifo")
    (tree / "many").mkdir()
    os.mkfifo(tree / "many" / "fifo")
    for number in range(500):
        (tree / "many" / str(number)).write_bytes(b"")
    remove_tree(str(tree))
    assert not tree.exists()


def test_no_descriptor_is_left(tree: Path) -> None:
    """Neither success nor failure leaves a descriptor open."""
    before = len(os.listdir("/proc/self/fd"))
    nest(tree, 50)
    remove_tree(str(tree))
    tree.write_text("a file")
    with pytest.raises(NotADirectoryError):
        remove_tree(str(tree))
    tree.unlink()
    assert len(os.listdir("/proc/self/fd")) == before


def test_scratch_is_private(tree: Path) -> None:
    """0700, a real path, and of a name that says whose it is."""
    assert tree.stat().st_mode & 0o777 == 0o700
    assert str(tree) == os.path.realpath(tree)
    assert tree.name.startswith(f"isandbox-{current_process()}-")
    remove_tree(str(tree))


ME = current_process()
DEAD = f"isandbox-{ME.namespace}-2147483647-1-0123456789abcdef"


def test_what_a_dead_owner_left_is_removed(tmp_path: Path) -> None:
    """With everything in it, whatever its modes; a name that is used again tells by the start time."""
    reused = f"isandbox-{ME.namespace}-{ME.pid}-{ME.start + 1}-0123456789abcdef"
    for name in (DEAD, reused):
        (tmp_path / name / "workspace" / "deep").mkdir(parents=True)
        (tmp_path / name / "workspace").chmod(0)
    assert sorted(remove_dead_scratch(str(tmp_path))) == sorted(str(tmp_path / name) for name in (DEAD, reused))
    assert remove_dead_scratch(str(tmp_path)) == ()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_a_dead_owners_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a process that lives, of another pid namespace, of a sandbox that outlives its maker, and all that has no such name."""
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    made = Path(make_scratch("workspace"))
    outlives = Path(make_scratch("workspace", id="local-" + "0" * 32))
    assert outlives.name == "isandbox-local-" + "0" * 32
    kept = [
        f"isandbox-{ME.namespace + 1}-2147483647-1-0123456789abcdef",
        f"isandbox-{ME.namespace}-2147483647-1-0123456789abcde",
        f"isandbox-{ME.namespace}-2147483648-1-0123456789abcdef",
        f"other-{ME.namespace}-2147483647-1-0123456789abcdef",
        "isandbox-0-1-0-0123456789abcdef",
        "isandbox-0123456789abcdef",
    ]
    for name in kept:
        (tmp_path / name).mkdir()
    assert remove_dead_scratch() == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, made.name, outlives.name])


def test_a_name_of_ours_on_what_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link, a file, or a directory of another user under such a name was put there by somebody: it stays, and so does its end."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "keep").write_text("x")
    (tmp_path / DEAD).symlink_to(tmp_path / "victim")
    (tmp_path / f"{DEAD[:-1]}0").write_text("x")
    theirs = tmp_path / f"{DEAD[:-1]}1"
    theirs.mkdir()
    if os.geteuid() == 0:
        os.chown(theirs, 54322, 54322)
    else:
        monkeypatch.setattr(scratch.os, "geteuid", lambda: 54322)
    assert remove_dead_scratch(str(tmp_path)) == ()
    assert len(list(tmp_path.iterdir())) == 4
    assert (tmp_path / "victim" / "keep").exists()


def test_nothing_is_removed_where_other_machines_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a network file system an owner that is not here may live on the other machine."""
    (tmp_path / DEAD).mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("isandbox._state.filesystems.kind_of", lambda _: "nfs4")
        assert remove_dead_scratch(str(tmp_path)) == ()
    assert remove_dead_scratch(str(tmp_path)) == (str(tmp_path / DEAD),)
    assert remove_dead_scratch(str(tmp_path / "nowhere")) == ()


def test_a_link_in_the_place_of_a_directory(tree: Path, sandbox_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process puts in a directory's place after it was looked at is neither followed nor changed."""
    precious = sandbox_tmp / "precious"
    precious.mkdir()
    (precious / "file").touch()
    precious.chmod(0o555)
    for place in (tree / "link", tree / "inner" / "link"):
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(precious)
    monkeypatch.setattr(scratch, "_is_directory", lambda directory, name: "file" not in name)  # as it was when we looked
    with pytest.raises(NotADirectoryError):
        remove_tree(str(tree))
    assert precious.stat().st_mode & 0o777 == 0o555
    assert (precious / "file").exists()
    monkeypatch.undo()
    remove_tree(str(tree))
    precious.chmod(0o755)
