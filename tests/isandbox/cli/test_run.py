"""`isandbox run` on the backend that needs no namespaces: everything that is the command line's own doing."""

import json
import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the native helper is for Linux")

ALL_BYTES = bytes(range(256)) * 1024


def test_streams_and_exit_code(local):
    """stdout goes to stdout, stderr to stderr, and the exit code is the command's."""
    done = local("--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_bytes_pass_unmodified(local):
    """What goes in on stdin comes out on stdout byte by byte, whatever the bytes are."""
    assert local("--", "cat", input=ALL_BYTES).stdout == ALL_BYTES


def test_options_of_the_command_are_its_own(local):
    """What follows the program's name is never read as an option of isandbox, with and without the two dashes."""
    for dashes in ([], ["--"]):
        assert local(*dashes, "printf", "%s.", "--json", "-w", "--").stdout == b"--json.-w.--."


def test_death_by_signal(local):
    """A command that a signal ends gives 128 + n."""
    assert local("--", "sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM


def test_time_out(local):
    """A time-out is 124, with the output so far and one line that says what happened."""
    done = local("--timeout", "0.5", "--", "sh", "-c", "echo before; sleep 60")
    assert (done.returncode, done.stdout) == (124, b"before\n")
    assert done.stderr == b"isandbox: the sandbox ended the command: timeout (after 0.5 s)\n"


def test_not_found_and_not_executable(local, project):
    """127 and 126, each with the reason."""
    (project / "text").write_text("x")
    done = local("--", "no-such-program")
    assert (done.returncode, done.stderr) == (127, b"isandbox: no-such-program: No such file or directory\n")
    done = local("--", "./text")
    assert (done.returncode, done.stderr) == (126, b"isandbox: ./text: Permission denied\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--type", "no-such-type"], "no-such-type"),
        (["--type", "local"], "workspace.ro"),
        (["--type", "local"], "-w DIR:rw"),
        (["-w", "no-such-directory"], "no-such-directory does not exist"),
        (["-w", "/"], "name a project directory"),
        (["--memory", "5MB"], "MiB"),
        (["--timeout", "0"], "timeout"),
        (["--mount", "/usr:relative"], "mount target"),
        (["--env", "A B\n=x"], "env"),
    ],
)
def test_own_errors(isandbox, arguments, says):
    """An error of ours is 125 and one line, or one object with --json; never a traceback."""
    base = [] if "--type" in arguments else ["--type", "local", "-w", ".:rw"]
    done = isandbox("run", *base, *arguments, "--", "true")
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.startswith(b"isandbox: ")
    assert done.stderr.count(b"\n") == 1
    assert says in done.stderr.decode()
    done = isandbox("run", "--json", *base, *arguments, "--", "true")
    assert (done.returncode, done.stderr) == (125, b"")
    assert says in json.loads(done.stdout)["error"]["message"]


def test_json(local):
    """--json streams nothing and prints one object; the exit code stays the command's."""
    done = local("--json", "--", "sh", "-c", "printf 'a\\377'; echo b >&2; exit 3")
    assert (done.returncode, done.stderr) == (3, b"")
    result = json.loads(done.stdout)
    assert done.stdout.count(b"\n") == 1
    assert {"duration", "cpu_time", "max_rss"} < set(result)
    expected = {"exit_code": 3, "stdout": "a\ufffd", "stderr": "b\n", "fault": None, "signal": None, "limits_hit": []}
    assert {key: result[key] for key in expected} == expected


def test_json_of_a_time_out(local):
    """With --json a time-out is the fault in the object and 124 as ever."""
    done = local("--json", "--timeout", "0.5", "--", "sleep", "60")
    assert (done.returncode, json.loads(done.stdout)["fault"]) == (124, "timeout")


def test_environment(local):
    """The host's environment stays outside, except for what --env names."""
    env = {"RUN_TEST_SECRET": "s", "RUN_TEST_GIVEN": "g"}
    done = local("--env", "RUN_TEST_GIVEN", "--env", "OTHER=1=2", "--", "env", env=env)
    lines = done.stdout.decode().splitlines()
    assert {"RUN_TEST_GIVEN=g", "OTHER=1=2"} <= set(lines)
    assert not any("SECRET" in line for line in lines)


def test_stdin_is_not_waited_for(local):
    """A command that ends without reading its input ends the run, though the input goes on."""
    read, write = os.pipe()
    try:
        assert local("--", "true", input=None, stdin=read).returncode == 0
    finally:
        os.close(read)
        os.close(write)


def test_stdin_is_not_handed_in(local):
    """The command's stdin is a pipe of the sandbox's, not the descriptor that isandbox was given."""
    with open(os.devnull) as null:
        done = local("--", "readlink", "/proc/self/fd/0", input=None, stdin=null)
    assert done.stdout.startswith(b"pipe:")


def test_output_arrives_as_it_is_written(program, project):
    """A line can be read while the command still waits for input."""
    arguments = [program, "run", "--type", "local", "-w", ".:rw", "--", "sh", "-c", "echo ready; read x; echo got $x"]
    with subprocess.Popen(arguments, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout.readline() == b"ready\n"
            assert running.communicate(b"it\n", timeout=60)[0] == b"got it\n"
        finally:
            running.kill()


def test_closed_output_is_quiet(program, project):
    """When nobody reads any more the command ends, with 141 and without a word."""
    arguments = [program, "run", "--type", "local", "-w", ".:rw", "--", "yes"]
    with subprocess.Popen(arguments, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        try:
            assert running.stdout.readline() == b"y\n"
            running.stdout.close()
            assert running.wait(timeout=60) == 141
            assert running.stderr.read() == b""
        finally:
            running.kill()


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_cannot_be_written(program, project, options):
    """On a full disk the run is 125, and stderr says why, with --json too."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [program, "run", "--type", "local", "-w", ".:rw", *options, "--", "echo", "x"],
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (125, b"isandbox: standard output: No space left on device\n")


@pytest.mark.parametrize("redirect", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors(program, project, redirect):
    """With stdin, stdout or stderr closed the command still runs to its own exit code."""
    script = f'exec "{program}" run --type local -w .:rw -- sh -c "cat; echo x; echo y >&2; exit 5" {redirect}'
    done = subprocess.run(
        ["sh", "-c", script], cwd=project, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 5
    assert done.stdout == (b"" if ">&-" in redirect.replace("2>&-", "") else b"x\n")


def _started(program, project, script):
    arguments = [program, "run", "--type", "local", "-w", ".:rw", "--", "sh", "-c", script]
    return subprocess.Popen(
        arguments,
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_signals_are_passed_on(program, project, name):
    """The command gets the signal, and its exit code is the run's."""
    with _started(program, project, f"trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.05; done") as running:
        try:
            assert running.stdout.readline() == b"ready\n"
            running.send_signal(getattr(signal, f"SIG{name}"))
            # The shell may have a word to say about its sleep, which the signal reaches too: it goes to the process group.
            assert running.communicate(timeout=60)[0] == b"got\n"
            assert running.returncode == 9
        finally:
            running.kill()


def test_second_interrupt_kills(program, project):
    """A command that does not care about Ctrl-C is killed by the second one."""
    with _started(program, project, "trap 'echo no' INT; echo ready; while :; do sleep 0.05; done") as running:
        try:
            assert running.stdout.readline() == b"ready\n"
            running.send_signal(signal.SIGINT)
            assert running.stdout.readline() == b"no\n"
            running.send_signal(signal.SIGINT)
            _, errors = running.communicate(timeout=60)
            assert running.returncode == 128 + signal.SIGKILL
            assert errors == b"isandbox: the sandbox ended the command: cancelled\n"
        finally:
            running.kill()


def test_ignored_hangup_stays_ignored(program, project):
    """Under nohup a hang-up does not reach the command."""
    script = (
        f'trap "" HUP; exec "{program}" run --type local -w .:rw -- sh -c "trap \'exit 9\' HUP; echo ready; read x; exit 4"'
    )
    with subprocess.Popen(["sh", "-c", script], cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout.readline() == b"ready\n"
            running.send_signal(signal.SIGHUP)
            running.communicate(b"x\n", timeout=60)
            assert running.returncode == 4
        finally:
            running.kill()
