"""Forms of arguments that only these commands have."""

import click
import pytest
from click.testing import CliRunner

from isandbox.cli import main
from isandbox.cli._options import split_labels
from isandbox.cli.commands import exec as exec_module
from isandbox.cli.commands import shell as shell_module
from isandbox.cli.life.copy import Place, parse_place
from isandbox.cli.life.durations import parse_duration, spoken
from isandbox.cli.life.inspect import lines
from isandbox.cli.life.kill import signal_number
from isandbox.cli.life.logs import split_since
from isandbox.records import Offsets


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1_800), ("1.5h", 5_400), ("2d", 172_800), (".5", 0.5)]
)
def test_durations(text, seconds):
    """A time is a number of seconds, or one with a unit."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1", "1w", "1 h", "1e3", "nan", "1h30m", "٣"])
def test_other_durations(text):
    """Any other form is refused, with examples."""
    with pytest.raises(click.BadParameter, match="90, 30m or 2h"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(3_600, "1 h"), (5_400, "90 min"), (90, "90 s"), (0.5, "0.5 s"), (86_400, "1 d")]
)
def test_spoken(seconds, text):
    """A time is said in the largest unit that says it exactly."""
    assert spoken(seconds) == text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a/b", Place("a/b")),
        ("seccomp-1:a/b", Place("a/b", "seccomp-1")),
        ("seccomp-1:/a:b", Place("/a:b", "seccomp-1")),
        ("seccomp-1:", Place(".", "seccomp-1")),
        ("./a:b", Place("./a:b")),
        ("/a:b", Place("/a:b")),
        ("d/a:b", Place("d/a:b")),
        (":a", Place(":a")),
        ("-", Place("-")),
    ],
)
def test_places(text, place):
    """ID:PATH is in a sandbox; a path whose first colon comes after a slash or a dot is on the host."""
    assert parse_place(text) == place


@pytest.mark.parametrize(("text", "number"), [("TERM", 15), ("sigterm", 15), ("15", 15), ("SIGUSR1", 10), ("64", 64)])
def test_signals(text, number):
    """A signal has a name, with SIG or without, or a number."""
    assert signal_number(text) == number


@pytest.mark.parametrize("text", ["", "0", "65", "-9", "NOSUCH", "9999999", "SIG"])
def test_other_signals(text):
    """What is no signal of Linux is refused."""
    with pytest.raises(click.BadParameter, match="no signal"):
        signal_number(text)


def test_offsets():
    """--since takes one number, or one a stream."""
    assert split_since("10") == Offsets(10, 0)
    assert split_since("10,20") == Offsets(10, 20)
    for text in ("", "x", "-1", "1,2,3", ",1", "9" * 50):
        with pytest.raises(click.BadParameter, match="number of bytes"):
            split_since(text)


def test_labels():
    """A label has a name and a value, which may be empty or hold more equals signs."""
    assert split_labels(["a=b", "c=", "d=e=f"]) == {"a": "b", "c": "", "d": "e=f"}
    for text in ("a", "=b", ""):
        with pytest.raises(click.BadParameter, match="K=V"):
            split_labels([text])


def parsed(module, name, arguments):
    """What the command's function is called with."""
    command = getattr(module, name)
    return command.make_context(name, list(arguments)).params


@pytest.mark.parametrize(
    ("arguments", "command", "terminal"),
    [
        (["X", "ls", "-t"], ("ls", "-t"), False),
        (["-t", "X", "ls"], ("ls",), True),
        (["X", "--", "ls", "-t"], ("ls", "-t"), False),
        (["X", "-t", "--", "ls"], ("ls",), True),
        (["-t", "X", "--", "-t"], ("-t",), True),
        (["X", "git", "log", "--", "f"], ("git", "log", "--", "f"), False),
        (["X", "grep", "-x", "--", "f"], ("grep", "-x", "--", "f"), False),
        (["X", "--", "git", "log", "--", "f"], ("git", "log", "--", "f"), False),
        (["-e", "A=b", "X", "ls"], ("ls",), False),
    ],
)
def test_where_the_command_begins(arguments, command, terminal):
    """Behind ID, or behind the first two dashes; nothing of it is read as an option of isandbox."""
    params = parsed(exec_module, "exec_", arguments)
    assert (params["id"], params["command"], params["terminal"]) == ("X", command, terminal)


@pytest.mark.parametrize("arguments", [["X"], ["X", "--"], [], ["X", "-t", "ls"], ["--nonsense", "X", "ls"]])
def test_exec_of_another_form(arguments):
    """Without a command, or with an option where the command begins, it is wrong usage."""
    with pytest.raises(click.UsageError):
        parsed(exec_module, "exec_", arguments)


@pytest.mark.parametrize(
    ("arguments", "id", "command"),
    [
        ([], None, ()),
        (["X"], "X", ()),
        (["--", "bash"], None, ("bash",)),
        (["X", "--attach", "1"], "X", ()),
        (["X", "--", "bash", "--", "-l"], "X", ("bash", "--", "-l")),
        (["-w", "d", "--", "--"], None, ("--",)),
    ],
)
def test_a_shell_with_and_without_an_id(arguments, id, command):
    """What stands before the two dashes is the sandbox, what stands behind them the command."""
    params = parsed(shell_module, "shell", arguments)
    assert (params["id"], params["command"]) == (id, command)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["shell", "X", "bash"], "unexpected extra argument"),
        (["shell", "X", "--memory", "1GiB"], "--memory is for a sandbox that is made"),
        (["shell", "--attach", "1"], "needs one"),
        (["shell", "X", "--attach", "1", "--", "ls"], "no command of its own"),
        (["shell", "--detach-keys", "x"], "a sandbox ID"),
        (["exec", "-i", "-t", "--json", "X", "ls"], "--json streams nothing"),
        (["logs", "X", "--since", "1", "--tail", "1"], "give one of them"),
        (["kill", "-s", "TERM", "X"], "kill -s SIGNAL ID N"),
        (["ps", "X", "--label", "a=b"], "with ID there is one"),
        (["create", "--label", "x"], "K=V"),
        (["create", "--lifetime", "soon"], "30m or 2h"),
    ],
)
def test_wrong_usage(arguments, says):
    """What contradicts itself is exit code 2 and says how it is meant, before any sandbox is looked for."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())


def test_alias():
    """ls is ps, and the list of commands has it once."""
    context = click.Context(main, info_name="isandbox")
    assert main.get_command(context, "ls") is main.get_command(context, "ps")
    assert "ls" not in main.list_commands(context)


def test_inspect_shows_what_a_helper_said():
    """Names that a sandbox's helper chose are made visible: they act on no terminal and begin no line."""
    escape = "\x1b]0;title\x07\x9b2J\nid forged"
    found = {
        "id": "seccomp-1",
        "detached": True,
        "labels": {escape: escape},
        "workspace": f"/{escape}",
        "isolation": "os",
        "waived": [escape],
        "layers": {f"a{escape}": "enforced", f"b{escape}": f"absent {escape}"},
        "commands": [],
    }
    text = list(lines(found))
    assert all(line.isprintable() for line in text)
    assert [line.split()[0] for line in text] == ["id", "isolation", "workspace", "owner", "labels", "layers", "no", "waived"]
