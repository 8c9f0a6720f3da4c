import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from isandbox import __version__
from isandbox.cli import main
from isandbox.cli._options import parse_options, split_env, split_mount, split_workspace
from isandbox.cli.commands.run import run


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/a:/b", ("/a", "/b", "ro")),
        ("/a:/b:ro", ("/a", "/b", "ro")),
        ("a/b:/c:rw", ("a/b", "/c", "rw")),
    ],
)
def test_mount_forms(text, parts):
    """--mount takes a source, a target and a mode that is ro unless it is said."""
    assert split_mount(text) == parts


@pytest.mark.parametrize("text", ["", "/a", ":/b", "/a:", "/a:/b:rwx", "/a:/b:ro:x", "/a:/b:"])
def test_mount_refuses_other_forms(text):
    """A --mount of another form is a usage error that shows the right one."""
    with pytest.raises(click.BadParameter, match=r"SRC:TARGET\[:ro\|rw\]"):
        split_mount(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [("d", ("d", "ro")), ("d:rw", ("d", "rw")), ("d:ro", ("d", "ro")), ("a:b", ("a:b", "ro")), ("a:b:rw", ("a:b", "rw"))],
)
def test_workspace_forms(text, parts):
    """-w takes a directory and a mode; a colon that starts no mode belongs to the directory."""
    assert split_workspace(text) == parts


def test_no_workspace_of_the_host():
    """-w none is an empty workspace, a directory of that name is ./none, and a mode of none is a usage error."""
    words = {"command": (), "mounts": (), "env": (), "type_": None, "toolchain": "none", "json_": False}
    assert parse_options(**words, workspace="none").workspace is None
    assert parse_options(**words, workspace="./none").workspace == os.path.join(os.getcwd(), "./none")
    for mode in ("ro", "rw"):
        with pytest.raises(click.BadParameter, match=rf"\./none:{mode}"):
            parse_options(**words, workspace=f"none:{mode}")


def test_workspace_without_directory():
    """A mode without a directory is a usage error."""
    with pytest.raises(click.BadParameter, match="names no directory"):
        split_workspace(":rw")


def test_env_forms():
    """--env sets what is written, and copies the host's value for a bare name."""
    assert split_env("A=b=c", {}) == ("A", "b=c")
    assert split_env("A=", {"A": "host"}) == ("A", "")
    assert split_env("A", {"A": "host"}) == ("A", "host")


@pytest.mark.parametrize(("text", "says"), [("A", "A is not set here"), ("=x", "needs a name"), ("", "needs a name")])
def test_env_refuses(text, says):
    """A variable that is not there to copy, or has no name, is a usage error."""
    with pytest.raises(click.BadParameter, match=says):
        split_env(text, {})


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--"],
        ["--cpus", "many", "--", "true"],
        ["--timeout", "soon", "--", "true"],
        ["--timeout", "-1", "--", "true"],
        ["--timeout", "nan", "--", "true"],
        ["--toolchain", "all", "--", "true"],
        ["--mount", "x", "--", "true"],
        ["--env", "RUN_TEST_NOT_SET", "--", "true"],
        ["--no-such-option", "--", "true"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments):
    """What is not of the documented form ends with click's exit code 2 before anything is started."""
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 2
    assert "Usage:" in result.output


@pytest.mark.parametrize("options", [["-it"], ["-t"], ["-i"], ["--tty", "--interactive"]])
def test_a_terminal_is_elsewhere(options):
    """Who asks run for a terminal, as of docker, is told which command has one; any other unknown option is click's."""
    result = CliRunner().invoke(main, ["run", *options, "--", "sh"])
    assert result.exit_code == 2
    assert "isandbox shell -- CMD" in result.output
    assert "isandbox shell" not in CliRunner().invoke(main, ["run", "-q", "--", "sh"]).output


def test_forms_that_options_share():
    """A time-out has the units of a lifetime, and -e is --env, for run as for exec."""
    options = {option.name: option for option in run.params}
    assert options["timeout"].type.convert("1.5m", None, None) == 90
    assert options["env"].opts == ["-e", "--env"]


def test_help_documents_exit_codes_and_json():
    """The help of run names every exit code of ours and every field of --json."""
    text = CliRunner().invoke(main, ["run", "--help"]).output
    for word in ("124", "125", "126", "127", "141"):
        assert f"\n    {word}  " in text
    for word in ("exit_code", "signal", "fault", "limits_hit", "truncated", "lingering", "start_error", "max_rss", '"error"'):
        assert word in text


def test_as_a_module():
    """`python -m isandbox` is the command line too."""
    done = subprocess.run(
        [sys.executable, "-m", "isandbox", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()[-1]) == (0, __version__)


def test_version():
    """--version prints the version of the distribution."""
    assert CliRunner().invoke(main, ["--version"]).output == f"isandbox, version {__version__}\n"
