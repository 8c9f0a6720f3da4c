from dataclasses import replace

import pytest

from isandbox import ConfigurationError, Mount
from isandbox.cli._host import Host
from isandbox.cli._options import RunOptions
from isandbox.cli._prepare import beside, prepare, workspace_path


def test_workspace_is_no_home(tmp_path):
    """A home directory, what is above it and / are refused with what to do instead; a link to one is the same."""
    home = tmp_path / "users" / "ann"
    (home / "project").mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    host = Host(homes=(str(home),))
    for path in ("/", home, tmp_path / "users", tmp_path, tmp_path / "link"):
        with pytest.raises(ConfigurationError, match="name a project directory with -w, or cd into one"):
            workspace_path(str(path), host)
    assert workspace_path(str(home / "project"), host) == str(home / "project")


def test_workspace_home_is_the_root(tmp_path):
    """A user whose home is / can still work anywhere else."""
    assert workspace_path(str(tmp_path), Host(homes=("/",))) == str(tmp_path)


def test_workspace_sibling_of_home(tmp_path):
    """A directory whose name merely starts like the home's is none."""
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann2").mkdir()
    assert workspace_path(str(tmp_path / "ann2"), Host(homes=(str(tmp_path / "ann"),)))


def test_own_mounts_win():
    """A mount that the user asks for is not shadowed or doubled by one of the toolchain."""
    found = (Mount("/opt/py", "/opt/py"), Mount("/opt/js", "/opt/js"))
    assert beside(found, [Mount("/x", "/opt/py")]) == [found[1]]
    assert beside(found, [Mount("/x", "/opt")]) == []
    assert beside(found, [Mount("/x", "/opt/p")]) == list(found)


def _options(project, executable, **fields):
    program = executable(project.parent / "tools" / "bin" / "tool")
    host = Host(path=str(program.parent), cwd=str(project), homes=(str(project.parent / "home"),))
    return RunOptions(argv=("tool", "-v"), host=host, workspace=str(project), **fields)


def test_toolchain_reaches_the_sandbox(project, executable):
    """What the search finds becomes mounts, the program's name and PATH."""
    prepared = prepare(_options(project, executable, type="seccomp"))
    prefix = str(project.parent / "tools")
    assert prepared.argv == (f"{prefix}/bin/tool", "-v")
    assert prepared.sandbox["mounts"] == [Mount(prefix, prefix)]
    assert prepared.sandbox["env"]["PATH"].startswith(f"{prefix}/bin:/usr/local/sbin:")
    assert prepared.hidden is None


def test_own_path_wins(project, executable):
    """A PATH that the user gives is not touched."""
    prepared = prepare(_options(project, executable, type="seccomp", env={"PATH": "/bin"}))
    assert prepared.sandbox["env"] == {"PATH": "/bin"}


def test_toolchain_none(project, executable):
    """Without a search nothing is mounted, and a program that will not be found is known."""
    prepared = prepare(_options(project, executable, type="seccomp", toolchain=False))
    assert prepared.argv == ("tool", "-v")
    assert prepared.sandbox["mounts"] == []
    assert prepared.sandbox["env"] == {}
    assert prepared.hidden == str(project.parent / "tools" / "bin" / "tool")


def test_toolchain_where_the_host_is_visible(project, executable):
    """On the local backend a name is looked up on the user's PATH, and nothing has to be mounted."""
    prepared = prepare(_options(project, executable, type="local"))
    assert prepared.argv == (str(project.parent / "tools" / "bin" / "tool"), "-v")
    assert prepared.sandbox["mounts"] == []


def test_bad_quota_is_the_cores_error(project, executable):
    """What a size means is said by the core, not by the command line's syntax."""
    with pytest.raises(ConfigurationError, match="MiB"):
        prepare(_options(project, executable, memory="5MB"))


def test_an_empty_workspace(project, executable):
    """Without a directory of the host the workspace is the sandbox's own, and the toolchain is found all the same."""
    options = _options(project, executable, type="seccomp", disk="1MiB")
    prepared = prepare(replace(options, workspace=None))
    assert prepared.sandbox["workspace"] is None
    assert prepared.sandbox["quotas"].disk == 1 << 20
    assert prepared.argv == (str(project.parent / "tools" / "bin" / "tool"), "-v")
    program = executable(project / "bin" / "mine")
    assert prepare(replace(options, workspace=None, argv=("bin/mine",))).argv == ("bin/mine",)
    assert prepare(replace(options, workspace=None, argv=(str(program),))).sandbox["mounts"] != []
