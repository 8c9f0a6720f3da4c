"""Mounts, workspaces and paths as records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isandbox import ConfigurationError, Mount, Workspace
from isandbox.policy import check_path, resolve_source


@pytest.mark.parametrize(
    "target",
    [
        "/", "", "relative", "./x", "..", "/a/..", "/a/../b", "/../a", "/a//b", "//a", "//", "///a", "/a/", "/a/.", "/.",
        "/a\0b", "/" + "x" * 5000, b"/a", 5, None, "/\ud800",
    ],
    ids=lambda value: ascii(value)[:20],
)  # fmt: skip
def test_targets_that_name_no_one_place(target: Any) -> None:
    """A target is absolute, below / and normal; POSIX's special '//' is none either."""
    with pytest.raises(ConfigurationError, match=r"^mount target:"):
        Mount("/usr", target)


def test_a_path_with_terminal_controls_is_shown_in_quoted_form() -> None:
    """The message for a path that is not there holds no control character of it; a plain path stands as it is."""
    with pytest.raises(ConfigurationError, match=r"x: '/no/\\x1b\[2J' does not exist"):
        resolve_source("/no/\x1b[2J", "x")
    with pytest.raises(ConfigurationError, match="x: /no/such path does not exist"):
        resolve_source("/no/such path", "x")


@pytest.mark.parametrize("target", ["/data", "/a/b/c", "/a b", "/..a", "/é", "/new\nline", "/" + "x" * 4094])
def test_targets(target: str) -> None:
    """Any absolute normal path is one, whatever its characters."""
    assert Mount("/usr", target).target == target


@pytest.mark.parametrize("source", ["", "a\0", "x" * 5000, b"/usr", 5, None])
def test_sources_that_are_no_path(source: Any) -> None:
    """A source is a text path below the kernel's limit."""
    with pytest.raises(ConfigurationError, match=r"^mount source:"):
        Mount(source, "/data")


@pytest.mark.parametrize("mode", ["", "w", "RW", None, "overlay", True])
def test_a_mode_is_one_of_two(mode: Any) -> None:
    """'ro' or 'rw'."""
    with pytest.raises(ConfigurationError, match=r"^mount mode:"):
        Mount("/usr", "/data", mode)


def test_paths_may_be_path_objects() -> None:
    """A Path is kept as its text, on both sides."""
    mount = Mount(Path("/usr"), Path("/data"))  # type: ignore[arg-type]
    assert (mount.source, mount.target, mount.mode) == ("/usr", "/data", "ro")
    assert Workspace(Path("/usr")).path == "/usr"  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["rw", "ro", "overlay", "copy"])
def test_workspace_modes(mode: Any) -> None:
    """Four modes; which of them a backend can do is the backend's to say."""
    assert Workspace("/w", mode).mode == mode


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(("/w", "r"), "mode"), (("",), "empty"), (("a\0",), "NUL"), (("/w", "rw", "*.env"), "deny"), ((b"/w",), "bytes")],
)
def test_workspaces_that_are_not_valid(arguments: tuple[Any, ...], word: str) -> None:
    """A wrong mode, no path, or a pattern where a list belongs."""
    with pytest.raises(ConfigurationError, match=word):
        Workspace(*arguments)


def test_deny_is_kept_as_a_tuple() -> None:
    """A list that is changed afterwards changes no workspace."""
    patterns = ["**/.env"]
    workspace = Workspace("/w", deny=patterns)  # type: ignore[arg-type]
    patterns.append("*")
    assert workspace.deny == ("**/.env",)


def test_the_kernels_limit_is_of_bytes() -> None:
    """4,095 bytes is the longest path, however many characters they are."""
    assert check_path("x" * 4095, "path")
    assert check_path("é" * 2047, "path")
    for text in ("x" * 4096, "é" * 2048):
        with pytest.raises(ConfigurationError, match="4096 bytes"):
            check_path(text, "path")


def test_resolving_a_source(tmp_path: Path) -> None:
    """All links are resolved; what is missing, a loop, or the whole file system is refused."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    assert resolve_source(str(tmp_path / "link"), "mount source") == str((tmp_path / "real").resolve())
    for path in (tmp_path / "missing", tmp_path / "loop", Path("/"), tmp_path / "real" / "x" / ".."):
        with pytest.raises(ConfigurationError, match=r"^mount source:"):
            resolve_source(str(path), "mount source")
