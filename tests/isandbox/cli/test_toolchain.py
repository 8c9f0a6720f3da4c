import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from isandbox import Mount
from isandbox.cli._host import Host
from isandbox.cli.toolchain import Toolchain, find_toolchain, hidden_program, on_host_path


@pytest.fixture
def world(tmp_path, executable):
    """A machine in a directory: a home, a project in it, a place for installations beside it."""
    home, project, opt = tmp_path / "home", tmp_path / "home" / "project", tmp_path / "opt"
    project.mkdir(parents=True)

    def find(argv0, *path, **env):
        host = Host(path=":".join(map(str, path)), cwd=str(project), homes=(str(home),), env={"HOME": str(home), **env})
        return find_toolchain(str(argv0), host, str(project), "/workspace")

    return SimpleNamespace(home=home, project=project, opt=opt, find=find, executable=executable)


def _python(prefix, executable, version="3.12"):
    """What makes a directory an installation of Python."""
    executable(prefix / "lib" / f"python{version}" / "os.py", "")
    executable(prefix / "bin" / f"python{version}")
    (prefix / "bin" / "python3").symlink_to(f"python{version}")
    return prefix


def _venv(place, base):
    (place / "bin").mkdir(parents=True)
    (place / "pyvenv.cfg").write_text(f"version = 3.12\nHome = {base}/bin\n")
    (place / "bin" / "python3").symlink_to(base / "bin" / "python3")
    (place / "bin" / "python").symlink_to("python3")
    return place


def _same(*places):
    return tuple(Mount(str(place), str(place)) for place in places)


def test_system_program_stays_as_it_is(world):
    """A program of the system is there anyway, under its own name."""
    assert world.find("sh", "/usr/bin", "/bin") == Toolchain("sh")


def test_unknown_program_stays_as_it_is(world):
    """What PATH does not have is left to be not found."""
    assert world.find("no-such-program", world.opt / "bin", "/usr/bin") == Toolchain("no-such-program")


def test_prefix_layout(world):
    """<prefix>/bin/<program> shows the prefix, calls the program by its path and puts it on PATH."""
    prefix = _python(world.opt / "py", world.executable)
    assert world.find("python3", prefix / "bin") == Toolchain(f"{prefix}/bin/python3", _same(prefix), (f"{prefix}/bin",))


def test_first_on_path_wins(world):
    """The search goes along PATH as a shell does; files that cannot be executed and relative entries do not count."""
    (world.opt / "a" / "bin").mkdir(parents=True)
    (world.opt / "a" / "bin" / "tool").write_text("")
    world.executable(world.project / "bin" / "tool")
    second = world.executable(world.opt / "b" / "bin" / "tool")
    world.executable(world.opt / "c" / "bin" / "tool")
    found = world.find("tool", world.opt / "a" / "bin", "bin", "", second.parent, world.opt / "c" / "bin")
    assert found.argv0 == str(second)


def test_link_into_another_prefix(world):
    """A link is followed: both ends are shown, and the program keeps the name it was found by."""
    real = world.executable(world.opt / "node-20" / "bin" / "node")
    link = world.opt / "links" / "bin" / "node"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    found = world.find("node", link.parent)
    assert found.argv0 == str(link)
    assert found.mounts == _same(world.opt / "links", world.opt / "node-20")


def test_linked_prefix(world):
    """A prefix behind a link is mounted from its real path at the path it was found by."""
    prefix = _python(world.opt / "3.12.4", world.executable)
    (world.opt / "3.12").symlink_to("3.12.4")
    found = world.find("python3", world.opt / "3.12" / "bin")
    assert found.argv0 == f"{world.opt}/3.12/bin/python3"
    assert found.mounts == (Mount(str(prefix), f"{world.opt}/3.12"),)


def test_uv_python(world):
    """A uv-managed Python is found through its link in ~/.local/bin; ~/.local itself stays out."""
    prefix = _python(world.home / ".local/share/uv/python/cpython-3.12.4", world.executable)
    link = world.home / ".local/bin/python3.12"
    link.parent.mkdir()
    link.symlink_to(prefix / "bin" / "python3.12")
    found = world.find("python3.12", link.parent)
    assert found.argv0 == str(link)
    assert found.mounts == (Mount(f"{prefix}/bin/python3.12", str(link)), *_same(prefix))


def test_hidden_directory_of_home(world):
    """Of what programs keep hidden in a home only the program is shown, not the secrets beside it."""
    cargo = world.executable(world.home / ".cargo/bin/tool")
    (world.home / ".cargo/credentials.toml").write_text("secret")
    assert world.find("tool", cargo.parent).mounts == _same(cargo)


@pytest.mark.parametrize("above", ["", ".."])
def test_home_is_never_shown(world, above):
    """A program in ~/bin, or in a bin above the home, mounts nothing and will not be found."""
    program = world.executable((world.home / above / "bin" / "tool").resolve())
    assert world.find("tool", program.parent) == Toolchain(str(program), hidden=str(program))


def test_link_from_home_to_an_installation(world):
    """A link in ~/bin cannot be shown; what it leads to can, and is called by its own name."""
    prefix = _python(world.opt / "py", world.executable)
    (world.home / "bin").mkdir()
    (world.home / "bin" / "python3").symlink_to(prefix / "bin" / "python3")
    found = world.find("python3", world.home / "bin")
    assert (found.argv0, found.mounts, found.hidden) == (f"{prefix}/bin/python3", _same(prefix), None)


def test_prefix_behind_a_link_to_home(world):
    """A harmless name for a home directory is a home directory."""
    world.executable(world.home / "bin" / "tool")
    world.opt.mkdir()
    (world.opt / "tools").symlink_to(world.home)
    assert world.find("tool", world.opt / "tools" / "bin").mounts == ()


def test_etc_is_never_shown(world):
    """Nothing of /etc is mounted on a program's account."""
    places = [path for path in ("/etc/init.d", "/etc/cron.daily", "/etc/kernel/postinst.d") if os.path.isdir(path)]
    for directory in places:
        for name in os.listdir(directory):
            assert world.find(name, directory).mounts == ()


def test_relative_program_in_the_workspace(world):
    """A program of the workspace is called as it is written, and needs no mount."""
    world.executable(world.project / "script.sh", "#!/bin/sh\n")
    assert world.find("./script.sh") == Toolchain("./script.sh")


def test_absolute_program_in_the_workspace(world):
    """An absolute path into the workspace is rewritten to where the workspace is inside."""
    script = world.executable(world.project / "bin" / "run.sh", "#!/bin/sh\n")
    assert world.find(script) == Toolchain("/workspace/bin/run.sh")


def test_venv_in_the_workspace(world):
    """A venv of the workspace is called there; its base is shown, and the workspace where the venv's own paths look for it."""
    base = _python(world.home / "pythons" / "3.12", world.executable)
    _venv(world.project / ".venv", base)
    found = world.find(".venv/bin/python")
    assert found == Toolchain(".venv/bin/python", _same(world.project, base))
    activated = world.find("python", world.project / ".venv" / "bin")
    assert activated.argv0 == "/workspace/.venv/bin/python"
    assert activated.path == ("/workspace/.venv/bin",)


def test_venv_elsewhere(world):
    """A venv outside the workspace is shown with its base, under its own path."""
    base = _python(world.opt / "py", world.executable)
    venv = _venv(world.home / "venvs" / "tools", base)
    found = world.find("python", venv / "bin")
    assert found.argv0 == f"{venv}/bin/python"
    assert found.mounts == _same(venv, base)


def test_venv_script(world):
    """The "#!" line of a venv's script leads to the venv's interpreter and from there to its base."""
    base = _python(world.opt / "py", world.executable)
    venv = _venv(world.opt / "venv", base)
    world.executable(venv / "bin" / "pytest", f"#!{venv}/bin/python3\n")
    assert world.find("pytest", venv / "bin").mounts == _same(base, venv)


def test_long_shebang(world):
    """The form that pip writes for long interpreter paths is followed too."""
    base = _python(world.opt / "py", world.executable)
    world.executable(world.opt / "tool" / "bin" / "x", f"#!/bin/sh\n'''exec' \"{base}/bin/python3\" \"$0\" \"$@\"\n' '''\n")
    assert world.find("x", world.opt / "tool" / "bin").mounts == _same(base, world.opt / "tool")


@pytest.mark.parametrize("line", ["#!/usr/bin/env node", "#!/usr/bin/env -S node --x", "#! /usr/bin/env A=b node"])
def test_env_shebang(world, line):
    """`env NAME` is looked up on the user's PATH, shown, and put on PATH inside."""
    node = world.executable(world.opt / "node" / "bin" / "node")
    script = world.executable(world.opt / "npm" / "bin" / "npm", line + "\n")
    found = world.find("npm", script.parent, node.parent)
    assert found.mounts == _same(world.opt / "node", world.opt / "npm")
    assert found.path == (str(node.parent), str(script.parent))


def test_scripts_that_interpret_each_other(world):
    """A circle of "#!" lines, or of links, ends the search and nothing else."""
    a, b = world.opt / "a" / "bin" / "a", world.opt / "b" / "bin" / "b"
    world.executable(a, f"#!{b}\n")
    world.executable(b, f"#!{a}\n")
    assert world.find("a", a.parent).argv0 == str(a)
    (world.opt / "a" / "bin" / "c").symlink_to("c")
    assert world.find("c", a.parent) == Toolchain("c")


def test_nested_mounts_are_one(world):
    """What is below a prefix that is shown is not mounted a second time."""
    base = _python(world.opt / "conda", world.executable)
    venv = _venv(base / "envs" / "x", base)
    assert world.find("python", venv / "bin").mounts == _same(base)


def test_venv_behind_a_link_in_the_workspace(world):
    """A .venv that is a link to a venv elsewhere is shown, and called, where it really is."""
    base = _python(world.opt / "py", world.executable)
    venv = _venv(world.home / "venvs" / "x", base)
    (world.project / ".venv").symlink_to("../venvs/x")
    for found in (world.find(".venv/bin/python"), world.find("python", world.project / ".venv" / "bin")):
        assert found.argv0 == f"{venv}/bin/python"
        assert found.mounts == _same(venv, base)


def test_var_tmp(world):
    """What is in /var/tmp is mounted in /tmp, where /var/tmp leads to inside."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        world.executable(Path(directory, "x", "bin", "tool"))
        found = world.find("tool", f"{directory}/x/bin")
        assert found.argv0 == f"{directory}/x/bin/tool"
        assert found.mounts == (Mount(f"{directory}/x", f"{directory.removeprefix('/var')}/x"),)


# --- what a project may not ask for ---


@pytest.mark.parametrize("through", ["project", "outside"])
def test_project_directory_link_to_a_secret(world, through):
    """A directory of the project that is a link to one of secrets shows nothing, however one gets to that link."""
    world.executable(world.home / "secrets" / "bin" / "python3")
    (world.project / ".venv").symlink_to(world.home / "secrets")
    (world.home / "current").symlink_to(world.project if through == "project" else world.project / ".venv")
    directory = world.home / "current" / (".venv/bin" if through == "project" else "bin")
    assert world.find(".venv/bin/python3").mounts == ()
    assert world.find("python3", world.project / ".venv" / "bin").mounts == ()
    assert world.find("python3", directory).mounts == ()


def test_project_link_to_a_secret(world):
    """A link in the project to an executable elsewhere shows nothing: the project wrote it, not the user."""
    secret = world.executable(world.home / "secrets" / "bin" / "python3")
    (world.project / "python").symlink_to(secret)
    assert world.find("./python").mounts == ()


def test_project_shebang_to_a_secret(world):
    """A "#!" line of the project shows a directory only when it is an interpreter's installation."""
    secret = world.executable(world.home / "secrets" / "bin" / "x")
    world.executable(world.home / ".aws" / "run")
    world.executable(world.project / "a", f"#!{secret}\n")
    world.executable(world.project / "b", f"#!{world.home}/.aws/run\n")
    assert world.find("./a").mounts == ()
    assert world.find("./b").mounts == ()
    base = _python(world.opt / "py", world.executable)
    world.executable(world.project / "c", f"#!{base}/bin/python3\n")
    assert world.find("./c").mounts == _same(base)


@pytest.mark.parametrize("place", ["secrets/bin", "bin", ".ssh/bin"])
def test_project_pyvenv_to_a_secret(world, place):
    """A pyvenv.cfg of the project cannot name a directory of secrets as its base."""
    (world.home / place).mkdir(parents=True)
    venv = world.project / "v"
    world.executable(venv / "bin" / "python3")
    (venv / "pyvenv.cfg").write_text(f"home = {world.home}/{place}\n")
    assert world.find("v/bin/python3").mounts == _same(world.project)


def test_project_fifo(world):
    """A fifo where a file is expected does not block the search."""
    os.mkfifo(world.project / "pyvenv.cfg")
    os.mkfifo(world.project / ".python-version")
    world.executable(world.project / "tool")
    assert world.find("./tool") == Toolchain("./tool")


# --- the two smaller searches ---


def test_on_host_path(world):
    """Where commands see the host, a name becomes the path of the user's own program."""
    tool = world.executable(world.home / "bin" / "tool")
    host = Host(path=str(tool.parent), cwd="/", homes=(str(world.home),))
    assert on_host_path("tool", host, "/") == Toolchain(str(tool))
    assert on_host_path("./tool", host, "/") == Toolchain("./tool")
    assert on_host_path("no-such", host, "/") == Toolchain("no-such")


def test_hidden_program(world):
    """A program that the host has and the sandbox has not is named; one of the system or the workspace is not."""
    tool = world.executable(world.home / "bin" / "tool")
    here = world.executable(world.project / "here")
    host = Host(path=f"{tool.parent}:{here.parent}:/usr/bin:/bin", homes=(str(world.home),))
    for argv0, hidden in [("tool", str(tool)), ("here", None), ("sh", None), ("no-such", None), (str(tool), str(tool))]:
        assert hidden_program(argv0, host, str(world.project), "/workspace") == hidden
