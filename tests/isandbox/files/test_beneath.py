"""The resolver: one table for the system call and for the walk that stands in for it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from isandbox.files import _openat2
from isandbox.files.beneath import Beneath

WAYS = [
    pytest.param(
        True,
        id="openat2",
        marks=pytest.mark.skipif(not _openat2.available(), reason="this kernel has no openat2, or a filter forbids it"),
    ),
    pytest.param(False, id="walk"),
]


@pytest.fixture(params=WAYS)
def top(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Beneath]:
    """A directory with everything that a path can meet, and a secret beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    inside = tmp_path / "inside"
    (inside / "d" / "e").mkdir(parents=True)
    (inside / "f").write_text("content")
    (inside / "d" / "g").write_text("deeper")
    for name, target in {
        "out": "../outside/secret",
        "outdir": "../outside",
        "abs": str(tmp_path / "outside" / "secret"),
        "in": "d/g",
        "indir": "d",
        "d/up": "../f",
        "d/upup": "../../outside/secret",
        "chain": "d/up",
        "loop": "loop",
        "dangling": "nothing",
        "indir2": "indir/e/..",
    }.items():
        (inside / name).symlink_to(target)
    os.mkfifo(inside / "fifo")
    with Beneath.open(inside, one_call=request.param) as opened:
        yield opened


TABLE = [
    # path, without links, with links that stay beneath
    ("f", "content", "content"),
    ("./d//g", "deeper", "deeper"),
    ("d/../f", "content", "content"),
    ("d/e/../../f", "content", "content"),
    ("in", errno.ELOOP, "deeper"),
    ("indir/g", errno.ELOOP, "deeper"),
    ("indir/../f", errno.ELOOP, "content"),
    ("d/up", errno.ELOOP, "content"),
    ("chain", errno.ELOOP, "content"),
    ("indir2/g", errno.ELOOP, "deeper"),
    ("out", errno.ELOOP, errno.EXDEV),
    ("outdir/secret", errno.ELOOP, errno.EXDEV),
    ("abs", errno.ELOOP, errno.EXDEV),
    ("d/upup", errno.ELOOP, errno.EXDEV),
    ("loop", errno.ELOOP, errno.ELOOP),
    ("dangling", errno.ELOOP, errno.ENOENT),
    ("../outside/secret", errno.EXDEV, errno.EXDEV),
    ("d/../../outside/secret", errno.EXDEV, errno.EXDEV),
    ("/etc/passwd", errno.EXDEV, errno.EXDEV),
    ("..", errno.EXDEV, errno.EXDEV),
    ("", errno.ENOENT, errno.ENOENT),
    ("missing", errno.ENOENT, errno.ENOENT),
    ("f/x", errno.ENOTDIR, errno.ENOTDIR),
    ("d", errno.EISDIR, errno.EISDIR),
    (".", errno.EISDIR, errno.EISDIR),
    ("fifo", errno.EINVAL, errno.EINVAL),
    ("x" * 256, errno.ENAMETOOLONG, errno.ENAMETOOLONG),
]


@pytest.mark.parametrize(("path", "strict", "following"), TABLE)
@pytest.mark.parametrize("follow", [False, True])
def test_what_a_path_leads_to(top: Beneath, path: str, strict: str | int, following: str | int, follow: bool) -> None:
    """Both ways find the same file, or refuse with the same errno, whatever links and dots are in the path."""
    wanted = following if follow else strict
    if isinstance(wanted, str):
        fd = top.open_file(path, follow=follow)
        assert os.read(fd, 100).decode() == wanted
        os.close(fd)
        return
    with pytest.raises(OSError) as caught:
        top.open_file(path, follow=follow)
    assert (caught.value.errno, caught.value.filename) == (wanted, path)


@pytest.mark.parametrize(
    "path", ["out", "outdir/new", "../new", "/tmp/isandbox-new", "indir/new", "f", "dangling", ".", "d/.."]
)
def test_nothing_is_made_outside(top: Beneath, tmp_path: Path, path: str) -> None:
    """Making a file, directory or link never goes through a link, over what is there, or out."""
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    for make in (top.create_file, top.make_dir, lambda p: top.make_link(p, "x")):
        with pytest.raises(OSError):
            make(path)
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before
    assert (tmp_path / "outside" / "secret").read_text() == "secret"


def test_the_verbs(top: Beneath, tmp_path: Path) -> None:
    """Make, list, describe, rename and remove act on entries beneath, and on links themselves."""
    inside = tmp_path / "inside"
    top.make_dir("new", 0o700)
    os.close(top.create_file("new/file", 0o600))
    top.make_link("new/link", "../../outside")
    assert [name for name, _ in top.list("new")] == ["file", "link"]
    assert top.read_link("new/link") == "../../outside"
    assert (inside / "new" / "file").stat().st_mode & 0o777 == 0o600
    top.rename("new/file", "d/moved")
    assert (inside / "d" / "moved").is_file()
    with pytest.raises(OSError) as caught:
        top.rename("d/moved", "outdir/moved")
    assert caught.value.errno == errno.ELOOP
    top.remove_tree("new")
    top.remove_tree("not there")
    assert not (inside / "new").exists()
    assert (tmp_path / "outside" / "secret").exists()
    top.remove("outdir")
    assert (tmp_path / "outside").is_dir()
    with pytest.raises(OSError):
        top.remove("d")


def test_an_error_names_the_path(top: Beneath) -> None:
    """Not only the last component, which is all that the kernel was given."""
    with pytest.raises(FileNotFoundError, match="d/missing"):
        top.stat("d/missing")


def test_no_descriptor_is_left(top: Beneath) -> None:
    """Whether a path is found or refused, what was opened on the way is closed."""
    before = len(os.listdir("/proc/self/fd"))
    for path, *_ in TABLE:
        for follow in (False, True):
            try:
                os.close(top.open_file(path, follow=follow))
            except OSError:
                continue
    top.list("d")
    assert len(os.listdir("/proc/self/fd")) == before


SWAP = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(200_000):
    os.rename("d", "hold"); os.rename("link", "d")
    os.rename("d", "link"); os.rename("hold", "d")
    if os.path.exists("stop"):
        break
"""
ROUNDS = 20_000


def test_a_directory_that_is_swapped_for_a_link_leads_nowhere(tmp_path: Path) -> None:
    """While another process swaps a directory for a link out, nothing is read or made outside; opening by path is fooled."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "d").mkdir(parents=True)
    outside.mkdir()
    (inside / "d" / "x").write_text("inside")
    (outside / "x").write_text("outside")
    (inside / "link").symlink_to(outside)
    swapper = subprocess.Popen([sys.executable, "-c", SWAP, str(inside)])
    try:
        fooled = any(_read_by_path(inside / "d" / "x") == "outside" for _ in range(ROUNDS))
        assert fooled, "the control: without the resolver the race is lost"
        for way in [mark.values[0] for mark in WAYS if mark.values[0] is False or _openat2.available()]:
            with Beneath.open(inside, one_call=way) as top:
                seen = {_read_beneath(top, number) for number in range(ROUNDS)}
            assert seen <= {"inside", None}
            assert "inside" in seen
    finally:
        (inside / "stop").touch()
        swapper.wait(60)
    assert os.listdir(outside) == ["x"]


def _read_by_path(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _read_beneath(top: Beneath, number: int) -> str | None:
    try:
        if number % 4 == 0:
            os.close(top.create_file(f"d/made-{number}"))
        for follow in (False, True):
            fd = top.open_file("d/x", follow=follow)
            try:
                found = os.read(fd, 100).decode()
            finally:
                os.close(fd)
            if found != "inside":
                return found
        return found
    except OSError:
        return None


@pytest.mark.native
def test_where_a_filter_forbids_the_call_the_walk_is_taken() -> None:
    """Inside a sandbox openat2 is not there: the same code finds that out by itself."""
    from isandbox.sync import create_sandbox

    package = Path(_openat2.__file__).parent
    code = "import sys, types\n" + "".join(
        f"m = types.ModuleType({name!r}); m.__path__ = []; sys.modules[{name!r}] = m\n"
        for name in ("isandbox", "isandbox.files")
    )
    for module in ("_openat2", "beneath"):
        code += (
            f"m = types.ModuleType('isandbox.files.{module}'); sys.modules[m.__name__] = m\n"
            f"setattr(sys.modules['isandbox.files'], {module!r}, m); exec({(package / f'{module}.py').read_text()!r}, m.__dict__)\n"
        )
    code += (
        "import os; from isandbox.files._openat2 import available; from isandbox.files.beneath import Beneath\n"
        "print(available()); top = Beneath.open('.'); print(os.read(top.open_file('f'), 9))\n"
        "try: top.open_file('l/passwd', follow=True)\nexcept OSError as e: print(e.errno)\n"
    )
    with create_sandbox("seccomp") as sandbox:
        sandbox.files.write("f", "content")
        sandbox.files.make_link("l", "/etc")
        result = sandbox.exec(["/usr/bin/python3", "-c", code])
    assert result.stdout.splitlines() == ["False", "b'content'", str(errno.EXDEV)], result.stderr


def test_threads_may_share_one(top: Beneath) -> None:
    """Four threads that open files at once each get their own."""
    wrong: list[str] = []

    def work(path: str, content: str) -> None:
        for _ in range(500):
            fd = top.open_file(path)
            if os.read(fd, 100).decode() != content:
                wrong.append(path)
            os.close(fd)

    threads = [threading.Thread(target=work, args=pair) for pair in (("f", "content"), ("d/g", "deeper")) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_nul_ends_no_path(top: Beneath) -> None:
    """For a system call it would: "f" and a NUL are not "f", whichever way the path is resolved."""
    for call in (lambda: top.open_file("f\0/../../outside/secret"), lambda: top.create_file("new\0"), lambda: top.stat("f\0")):
        with pytest.raises(ValueError, match="null"):
            call()
    assert "new" not in [name for name, _ in top.list()]


def test_a_tree_of_any_depth_is_removed(top: Beneath, tmp_path: Path) -> None:
    """Deeper than there are descriptors, its paths longer than any may be; links in it are removed and not followed."""
    top.make_dir("deep")
    for name in (".1", ".3"):  # in the way of what is moved
        (tmp_path / "inside" / "deep" / name / "full" / "full").mkdir(parents=True)
    (tmp_path / "inside" / "deep" / ".2").touch()
    fd = top.open_directory("deep")
    for _ in range(1500):
        os.mkdir("level", dir_fd=fd)
        os.symlink("../../../outside", "link", dir_fd=fd)
        below = os.open("level", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    top.remove_tree("deep")
    assert not (tmp_path / "inside" / "deep").exists()
    assert (tmp_path / "outside" / "secret").read_text() == "secret"
