"""`isandbox run` with a policy file, and with what files and variables set."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from isandbox import ConfigurationError, Policy
from isandbox.cli._host import Host
from isandbox.cli._options import RunOptions, parse_options
from isandbox.cli._prepare import prepare


def parsed(**options: Any) -> RunOptions:
    plain = {"command": ["x"], "mounts": (), "env": (), "workspace": None, "type_": None, "toolchain": "auto", "json_": False}
    return parse_options(**{**plain, "cpus": None, "memory": None, "timeout": None, "waive": (), **options})


@pytest.mark.parametrize(
    ("beside", "word"),
    [({"workspace": "."}, "-w"), ({"mounts": ["/a:/b"]}, "--mount"), ({"cpus": 1.0}, "--cpus"), ({"memory": "1MiB"}, "--memory"),
     ({"waive": ("disk",)}, "--waive")],
)  # fmt: skip
def test_a_policy_file_stands_alone(beside: dict[str, Any], word: str) -> None:
    """What the file says cannot be said beside it; variables and a time-out can."""
    with pytest.raises(click.UsageError, match=f"whole policy; leave out {word}"):
        parsed(policy="p.toml", **beside)
    assert parsed(policy="p.toml", env=["A=1"], timeout=1.0).policy == os.path.join(os.getcwd(), "p.toml")
    assert parsed(**beside).policy is None


def options(project: Path, text: str, **fields: Any) -> RunOptions:
    file = project / "p.toml"
    file.write_text(text)
    host = Host(path="/usr/bin", cwd=str(project), homes=(str(project.parent),))
    return RunOptions(argv=("sh",), host=host, workspace=str(project), policy=str(file), **fields)


def test_the_file_is_what_the_sandbox_gets(project: Path) -> None:
    """No directory, toolchain or PATH is added; variables of the command line are."""
    prepared = prepare(options(project, "[quotas]\nmemory = '1MiB'\n[env]\nA = '1'\n", type="local", env={"B": "2"}))
    assert dict(prepared.sandbox) == {"policy": Policy.loads("[quotas]\nmemory = '1MiB'\n[env]\nA = '1'\nB = '2'\n")}
    assert (prepared.argv, prepared.memory) == (("sh",), 1 << 20)


def test_a_variable_has_one_source(project: Path) -> None:
    """One that the file sets too is refused, without either value."""
    with pytest.raises(ConfigurationError, match=r"--env A: .*p.toml sets it too") as caught:
        prepare(options(project, "[env]\nA = 's3cret'\n", type="local", env={"A": "s3cret"}))
    assert "s3cret" not in str(caught.value)


def test_a_files_workspace_is_no_home(project: Path) -> None:
    """A home directory is as little a workspace by a file as by -w."""
    with pytest.raises(ConfigurationError, match="your home directory"):
        prepare(options(project, "[workspace]\npath = '..'\nmode = 'ro'\n", type="local"))


def test_run_by_a_file(isandbox: Any, project: Path) -> None:
    """The command works in the file's workspace with its variables."""
    (project / "sub").mkdir()
    (project / "sub" / "here").touch()
    (project / "p.toml").write_text("[workspace]\npath = 'sub'\n[env]\nA = 'one'\n")
    done = isandbox("run", "--type", "local", "--policy", "p.toml", "--env", "B=two", "--", "sh", "-c", 'ls; echo "$A $B"')
    assert (done.returncode, done.stdout) == (0, b"here\none two\n"), done.stderr


def test_what_is_wrong_is_one_line(isandbox: Any, project: Path) -> None:
    """A bad policy, settings file or variable is exit code 125 and a line with its name; no traceback."""
    (project / "p.toml").write_text("profile = 3\n")
    done = isandbox("run", "--type", "local", "--policy", "p.toml", "--", "true")
    assert (done.returncode, done.stderr.count(b"\n")) == (125, 1)
    assert b"p.toml: profile: no such key" in done.stderr
    done = isandbox("run", "--type", "local", "--policy", "p.toml", "--cpus", "1", "--", "true")
    assert (done.returncode, b"--policy is the whole policy" in done.stderr) == (2, True)
    done = isandbox("run", "--type", "local", "--", "true", env={"ISANDBOX_QUOTAS_PIDZ": "3"})
    assert (done.returncode, b"did you mean ISANDBOX_QUOTAS_PIDS?" in done.stderr) == (125, True)


def test_settings_reach_a_command(program: str, project: Path) -> None:
    """A quota of the user's file holds for a command, a project's for one in that directory, a variable's over both."""
    home = project.parent / "home"
    file = home / ".config" / "isandbox" / "isandbox.toml"
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_text('type = "local"\n[quotas]\nopen_files = 100\n')
    plain = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ}

    def limit(**env: str) -> bytes:
        command = [program, "run", "-w", ".:rw", "--", "sh", "-c", "ulimit -n"]
        env = {**plain, "HOME": str(home), **env}
        done = subprocess.run(
            command, cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True
        )
        return bytes(done.stdout)

    assert limit() == b"100\n"
    (project / "isandbox.toml").write_text("[quotas]\nopen_files = 50\n")
    assert limit() == b"50\n"
    (project / "isandbox.toml").write_text("[quotas]\nopen_files = 500\n")
    assert limit() == b"100\n"
    assert limit(ISANDBOX_QUOTAS_OPEN_FILES="70") == b"70\n"


def test_doctor_names_the_file(isandbox: Any, project: Path) -> None:
    """Doctor says who chose the default: the file, where it was one; and a file that is wrong is its reason, no traceback."""
    file = project / "settings.toml"
    file.write_text('type = "local"\n')
    done = isandbox("doctor", "--json", env={"SANDBOX_TYPE": "", "ISANDBOX_CONFIG": str(file)})
    said = json.loads(done.stdout)["default"]
    assert (said["name"], said["reason"]) == ("local", None)
    assert str(file) in said["chosen_by"]
    file.write_text("typ = 3\n")
    done = isandbox("doctor", "--json", env={"SANDBOX_TYPE": "", "ISANDBOX_CONFIG": str(file)})
    assert done.returncode == 1
    assert "typ: no such key; did you mean type?" in json.loads(done.stdout)["default"]["reason"]
