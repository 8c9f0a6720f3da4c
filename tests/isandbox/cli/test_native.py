"""`isandbox run` in the seccomp sandbox: what the command line shows, and what it does not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.native

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def sandboxed(isandbox):
    def call(*arguments, **options):
        return isandbox("run", "--type", "seccomp", *arguments, **options)

    return call


def _venv(place):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=60)
    return place


def test_workspace_is_read_only(sandboxed, project):
    """The current directory is there to be read, and not to be written."""
    (project / "file").write_text("content")
    done = sandboxed("--", "sh", "-c", "pwd; cat file; touch new")
    assert done.stdout == b"/workspace\ncontent"
    assert b"Read-only file system" in done.stderr
    assert done.returncode != 0
    assert not (project / "new").exists()


def test_workspace_of_its_own(sandboxed, project):
    """-w none is empty, can be written up to --disk, and shows nothing of the current directory."""
    (project / "file").write_text("content")
    done = sandboxed("-w", "none", "--disk", "1MiB", "--", "sh", "-c", "ls; head -c 3000000 /dev/zero > new; wc -c < new")
    assert (done.returncode, done.stdout) == (0, b"1048576\n")
    assert b"No space left" in done.stderr
    assert os.listdir(project) == ["file"]


def test_workspace_read_write(sandboxed, project, tmp_path):
    """-w names another directory and lets the command write there, as the directory's owner."""
    other = tmp_path / "other"
    other.mkdir()
    assert sandboxed("-w", f"{other}:rw", "--", "sh", "-c", "echo x > new").returncode == 0
    assert (other / "new").read_text() == "x\n"
    assert (other / "new").stat().st_uid == os.getuid()


def test_mount(sandboxed, tmp_path):
    """--mount shows a directory at its target, read-only unless it says rw."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("content")
    done = sandboxed("--mount", f"{tmp_path}/data:/data", "--", "sh", "-c", "cat /data/file; ! touch /data/new 2>/dev/null")
    assert (done.returncode, done.stdout) == (0, b"content")
    done = sandboxed("--mount", f"{tmp_path}/data:/data:rw", "--", "touch", "/data/new")
    assert done.returncode == 0
    assert (tmp_path / "data" / "new").exists()


def test_python_of_the_path(sandboxed):
    """`python3` is the user's own, wherever their PATH has it: a shim, a link or the system."""
    host = subprocess.run(
        ["python3", "-c", "import sys; print(sys.prefix)"], capture_output=True, timeout=60, check=True, cwd="/"
    )
    done = sandboxed("--", "python3", "-c", "import ctypes, ssl, sys; print(sys.prefix)")
    assert (done.stdout, done.stderr) == (host.stdout, b"")


def test_venv_in_the_project(sandboxed, project):
    """A venv of the project runs by its path, activated, and through the "#!" lines of its scripts."""
    venv = _venv(project / ".venv")
    script = venv / "bin" / "tool"
    script.write_text(f"#!{venv}/bin/python\nimport sys; print(sys.prefix)\n")
    script.chmod(0o755)
    show = ["-c", "import sys; print(sys.prefix)"]
    activated = {"PATH": f"{venv}/bin:{os.environ['PATH']}"}
    assert sandboxed("--", ".venv/bin/python", *show).stdout == b"/workspace/.venv\n"
    assert sandboxed("--", "python", *show, env=activated).stdout == b"/workspace/.venv\n"
    for name in (".venv/bin/tool", "tool"):
        done = sandboxed("--", name, env=activated)
        assert (done.stdout.decode(), done.stderr) == (f"{venv}\n", b"")


def test_venv_elsewhere(sandboxed, tmp_path):
    """A venv beside the project is shown at its own path, read-only."""
    venv = _venv(tmp_path / "venvs" / "tools")
    done = sandboxed("--", "python", "-c", "import sys; print(sys.prefix)", env={"PATH": f"{venv}/bin:{os.environ['PATH']}"})
    assert (done.stdout.decode(), done.stderr) == (f"{venv}\n", b"")


def test_program_that_is_not_shown(sandboxed, tmp_path, executable):
    """A program in ~/bin is not found, and the message says where it is and what to do."""
    home = tmp_path / "home"
    tool = executable(home / "bin" / "tool", "#!/bin/sh\necho no\n")
    env = {"HOME": str(home), "PATH": f"{tool.parent}:{os.environ['PATH']}"}
    for toolchain in ("auto", "none"):
        done = sandboxed("--toolchain", toolchain, "--", "tool", env=env)
        assert (done.returncode, done.stdout) == (127, b"")
        assert f"exists on the host at {tool}, not visible inside; mount it with --mount" in done.stderr.decode()


def test_nothing_of_the_project_is_executed(sandboxed, project, tmp_path):
    """Finding a program runs nothing of it: a python that leaves a trace on the host leaves none."""
    trace = tmp_path / "trace"
    bin_ = project / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (project / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (bin_ / "python3").write_text(f"#!/bin/sh\ntouch {trace}; echo ran\n")
    (bin_ / "python3").chmod(0o755)
    done = sandboxed("--", "python3", env={"PATH": f"{bin_}:{os.environ['PATH']}"})
    assert done.stdout == b"ran\n"
    assert not trace.exists()


@pytest.mark.parametrize("place", ["home", "above"])
def test_home_is_no_workspace(sandboxed, tmp_path, place):
    """In the home directory or above it, nothing runs."""
    (tmp_path / "above" / "home").mkdir(parents=True)
    where = tmp_path / "above" / ("home" if place == "home" else "")
    done = sandboxed("--", "true", cwd=where, env={"HOME": f"{tmp_path}/above/home"})
    assert done.returncode == 125
    assert b"cd into one" in done.stderr


def test_waivers(sandboxed):
    """--waive runs without the layer; one that the backend does not have to waive is an error with those that it has."""
    result = sandboxed("--waive", "landlock", "--waive", "keyring", "--", "echo", "fine")
    assert (result.returncode, result.stdout) == (0, b"fine\n")
    result = sandboxed("--waive", "seccomp", "--", "echo", "fine")
    assert (result.returncode, result.stdout) == (125, b"")
    assert b"no 'seccomp' to waive" in result.stderr
    assert b"landlock" in result.stderr


def test_out_of_memory(sandboxed):
    """The sandbox's end of a command that uses too much memory is one line with the quota, and a fault in --json."""
    script = "for i in 1 2 3 4; do (x=$(head -c 40000000 /dev/zero | tr '\\0' x); sleep 30) & done; wait"
    done = sandboxed("--memory", "64MiB", "--timeout", "60", "--json", "--", "sh", "-c", script)
    assert json.loads(done.stdout)["fault"] == "oom"
    done = sandboxed("--memory", "64MiB", "--timeout", "60", "--", "sh", "-c", script)
    assert b"isandbox: the sandbox ended the command: oom (memory quota 64 MiB)\n" in done.stderr


def test_demo(sandboxed, project):
    """The demo finds its computation right and everything else refused, in a copy of the repository anywhere."""
    (project / "examples").mkdir()
    shutil.copy(REPOSITORY / "examples" / "demo.py", project / "examples")
    done = sandboxed("--", "python3", "examples/demo.py")
    assert done.returncode == 0, done.stdout.decode()
    assert b"78,498" in done.stdout
    assert b"ALLOWED" not in done.stdout


def test_demo_outside(project):
    """Without a sandbox the demo says what was allowed and fails: it can tell the difference."""
    demo = str(REPOSITORY / "examples" / "demo.py")
    done = subprocess.run([sys.executable, demo], cwd=project, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert b"ALLOWED: wrote" in done.stdout
