"""Host paths that a caller mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from isandbox import ConfigurationError
from isandbox_backends._shared.sources import real_source


def test_a_real_path_is_itself(tmp_path: Path) -> None:
    """Relative parts and slashes at the end are normalised."""
    real = tmp_path.resolve()
    assert real_source(str(real), "mount source") == str(real)
    assert real_source(f"{real}/", "mount source") == str(real)
    assert real_source(f"{real}/./../{real.name}", "mount source") == str(real)


def test_a_relative_path_starts_at_the_callers_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Workspace(".")` is where the caller stands."""
    monkeypatch.chdir(tmp_path.resolve())
    assert real_source(".", "workspace") == str(tmp_path.resolve())


@pytest.mark.parametrize("inside", ["", "/sub"])
def test_a_link_is_refused_with_the_real_path(tmp_path: Path, inside: str) -> None:
    """At the end of the path or on the way: the caller decides whether the real path is what was meant."""
    real = tmp_path.resolve() / "real"
    (real / "sub").mkdir(parents=True)
    link = tmp_path.resolve() / "link"
    link.symlink_to(real)
    with pytest.raises(ConfigurationError, match=f"symbolic link; name {real}{inside}$"):
        real_source(f"{link}{inside}", "mount source")


@pytest.mark.parametrize("path", ["/proc", "/proc/self", "/proc/sys/kernel", "/sys", "/sys/kernel", "/dev", "/dev/null"])
def test_kernel_state_is_refused(path: str) -> None:
    """The sandbox has its own /proc and /dev, and no /sys."""
    with pytest.raises(ConfigurationError, match=r"kernel's own state|symbolic link"):
        real_source(path, "mount source")


@pytest.mark.parametrize("path", ["/no/such/thing", "/etc/passwd/x", "/", "", "a\0", "/" + "x" * 5000, "/" + "y" * 300])
def test_what_is_not_there(path: str) -> None:
    """Missing, below a file, the whole system, no path at all: each said with the option's name."""
    with pytest.raises(ConfigurationError, match=r"^workspace:"):
        real_source(path, "workspace")
