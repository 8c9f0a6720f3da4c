import pytest

from isandbox.cli._host import Host
from isandbox.cli.toolchain import find_toolchain


@pytest.fixture
def pyenv(tmp_path, executable):
    """~/.pyenv with four versions, of which 3.13.0 has no tool; returns a search for the shim's program."""
    home, project, root = tmp_path / "home", tmp_path / "home" / "work" / "project", tmp_path / "home" / ".pyenv"
    project.mkdir(parents=True)
    executable(root / "shims" / "tool", "#!/usr/bin/env bash\nexec pyenv exec\n")
    for version in ("3.9.1", "3.12.4", "3.12.10", "3.13.0"):
        executable(root / "versions" / version / "bin" / ("python" if version == "3.13.0" else "tool"))
    executable(tmp_path / "system" / "bin" / "tool")
    path = f"{root}/shims:{tmp_path}/system/bin"

    def find(**env):
        host = Host(path=path, cwd=str(project), homes=(str(home),), env={"HOME": str(home), **env})
        return find_toolchain("tool", host, str(project), "/workspace")

    find.root, find.project, find.system = root, project, tmp_path / "system"
    return find


def _version(pyenv, version):
    return f"{pyenv.root}/versions/{version}/bin/tool"


def test_version_from_the_environment(pyenv):
    """PYENV_VERSION wins, and of several versions the first that has the program."""
    (pyenv.project / ".python-version").write_text("3.12.4\n")
    assert pyenv(PYENV_VERSION="3.9.1").argv0 == _version(pyenv, "3.9.1")
    assert pyenv(PYENV_VERSION="3.13.0:3.12.4:3.9.1").argv0 == _version(pyenv, "3.12.4")


def test_version_from_the_nearest_file(pyenv):
    """Without it the nearest .python-version above the workspace decides, then the global version."""
    (pyenv.root / "version").write_text("3.12.10\n")
    assert pyenv().argv0 == _version(pyenv, "3.12.10")
    (pyenv.project.parent / ".python-version").write_text("# ours\n3.12.4\n")
    assert pyenv().argv0 == _version(pyenv, "3.12.4")
    (pyenv.project / ".python-version").write_text("3.13.0\n3.9.1\n")
    assert pyenv().argv0 == _version(pyenv, "3.9.1")


def test_beginning_of_a_version(pyenv):
    """3.12 is the latest installed 3.12."""
    assert pyenv(PYENV_VERSION="3.12").argv0 == _version(pyenv, "3.12.10")


@pytest.mark.parametrize("env", [{}, {"PYENV_VERSION": "system"}])
def test_system(pyenv, env):
    """`system`, which is also what no version at all means, is the next program on PATH."""
    assert pyenv(**env).argv0 == f"{pyenv.system}/bin/tool"


def test_only_the_version_is_shown(pyenv):
    """The version's prefix is mounted, not pyenv with everything else in it."""
    found = pyenv(PYENV_VERSION="3.9.1")
    assert [(m.source, m.target, m.mode) for m in found.mounts] == [(f"{pyenv.root}/versions/3.9.1",) * 2 + ("ro",)]
    assert found.path == (f"{pyenv.root}/versions/3.9.1/bin",)


def test_shim_by_its_path(pyenv):
    """A shim that is named by its path stands for the same program."""
    host = Host(homes=(str(pyenv.root.parent),), env={"PYENV_VERSION": "3.9.1"})
    found = find_toolchain(f"{pyenv.root}/shims/tool", host, str(pyenv.project), "/workspace")
    assert found.argv0 == _version(pyenv, "3.9.1")


@pytest.mark.parametrize("version", ["../../../system", "/etc", "..", "4.0.0"])
def test_version_that_is_none(pyenv, version):
    """A version that is not installed, or would lead out of pyenv's versions, runs nothing."""
    (pyenv.project / ".python-version").write_text(version)
    assert not any("system" in mount.source or "versions" in mount.source for mount in pyenv().mounts)


def test_pyenv_root(pyenv, executable, tmp_path):
    """PYENV_ROOT names another place for shims and versions."""
    other = tmp_path / "pyenv"
    executable(other / "shims" / "other")
    program = executable(other / "versions" / "1" / "bin" / "other")
    host = Host(path=f"{other}/shims", homes=("/nonexistent",), env={"PYENV_ROOT": str(other), "PYENV_VERSION": "1"})
    assert find_toolchain("other", host, str(pyenv.project), "/workspace").argv0 == str(program)
