import pytest

from isandbox import ConfigurationError, ExecResult, ExecTimeoutError, UnsupportedError
from isandbox.cli._prepare import Prepared
from isandbox.cli._report import end_code, end_lines, error_object, error_text, format_size, result_object


def _prepared(**fields):
    return Prepared(type="seccomp", argv=("x",), sandbox={}, **fields)


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (ExecResult(0), 0),
        (ExecResult(7), 7),
        (ExecResult(137, signal=9), 137),
        (ExecResult(137, signal=9, fault="timeout"), 124),
        (ExecResult(137, signal=9, fault="oom"), 137),
    ],
)
def test_exit_code(result, code):
    """The exit code is the command's own, except for a time-out."""
    assert end_code(result) == code


@pytest.mark.parametrize(
    ("result", "prepared", "line"),
    [
        (
            ExecResult(137, signal=9, fault="oom"),
            _prepared(memory=64 << 20),
            b"isandbox: the sandbox ended the command: oom (memory quota 64 MiB)\n",
        ),
        (
            ExecResult(137, signal=9, fault="timeout"),
            _prepared(timeout=2.5),
            b"isandbox: the sandbox ended the command: timeout (after 2.5 s)\n",
        ),
        (ExecResult(137, signal=9, fault="cancelled"), _prepared(), b"isandbox: the sandbox ended the command: cancelled\n"),
        (
            ExecResult(127, start_error="x: No such file or directory"),
            _prepared(hidden="/x/y"),
            b"isandbox: x: No such file or directory (exists on the host at /x/y, not visible inside; mount it with --mount)\n",
        ),
        (
            ExecResult(126, start_error="x: Permission denied"),
            _prepared(hidden="/x/y"),
            b"isandbox: x: Permission denied\n",
        ),
    ],
)
def test_lines(result, prepared, line):
    """A fault and a program that does not start are one line each, with what helps."""
    assert list(end_lines(result, prepared)) == [line]


def test_a_shell_line_as_one_word():
    """Who gives a line for a shell as one argument is told how a shell runs it."""
    prepared = Prepared(type="seccomp", argv=("echo hi; ls",), sandbox={})
    (line,) = end_lines(ExecResult(127, start_error="echo hi; ls: No such file or directory"), prepared)
    assert b"-- sh -c" in line


def test_a_line_holds_no_terminal_controls():
    """A reason with control characters in it, from whatever backend, shows them as escapes on one line."""
    (line,) = end_lines(ExecResult(127, start_error="\x1b]0;x\x07\n\x9b: gone"), _prepared())
    assert line == rb"isandbox: \x1b]0;x\x07\n\x9b: gone" + b"\n"


def test_no_line_for_an_ordinary_end():
    """A command that ends by itself is nobody's news, also when it failed."""
    assert list(end_lines(ExecResult(1), _prepared())) == []


def test_result_object():
    """The object of --json has these fields, limits sorted, output as text."""
    result = ExecResult(1, limits_hit=frozenset({"pids", "disk"}), stdout_bytes=b"a\xff", max_rss=5)
    assert result_object(result, _prepared()) == {
        "exit_code": 1,
        "signal": None,
        "fault": None,
        "limits_hit": ["disk", "pids"],
        "stdout": "a\ufffd",
        "stderr": "",
        "truncated": False,
        "lingering": False,
        "start_error": None,
        "duration": 0.0,
        "cpu_time": 0.0,
        "max_rss": 5,
    }


def test_error_object():
    """An error of ours has its stable code and its message."""
    assert error_object(ConfigurationError("no")) == {"error": {"code": "configuration", "message": "no"}}


@pytest.mark.parametrize(
    ("size", "text"), [(64 << 20, "64 MiB"), (3 << 30, "3 GiB"), (1025, "1025 bytes"), (1536, "1536 bytes")]
)
def test_format_size(size, text):
    """A size is said exactly."""
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(2, "No such file or directory", "a b"), "a b: No such file or directory"),
        (OSError(18, "Cross-device link", "a", None, b"b"), "a -> b: Cross-device link"),
        (OSError(28, "standard output: No space left on device"), "standard output: No space left on device"),
        (OSError("only a text"), "only a text"),
        (ExecTimeoutError("too long", result=ExecResult(137, signal=9, fault="timeout")), "too long"),
    ],
)
def test_errors_of_the_operating_system(error, text):
    """What failed and why stand there as other programs say it, without a number; errors of ours keep their message."""
    assert error_text(error) == text


@pytest.mark.parametrize(("option", "way"), [("workspace.ro", "-w DIR:rw"), ("quotas.disk", "-w none")])
def test_a_way_out_on_the_command_line(option, way):
    """What is refused by the backend comes with the option of the command line that helps."""
    assert way in error_text(UnsupportedError("no", option=option, backend="local"))
