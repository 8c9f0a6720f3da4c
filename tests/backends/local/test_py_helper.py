"""The `local` backend with its helper in Python: the same contract, kept by weaker means, and said so."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import psutil
import pytest

import isandbox
from isandbox import Quotas
from isandbox.errors import BackendUnavailableError, ConfigurationError, SandboxLostError
from isandbox.sync import create_sandbox
from isandbox.sync.sandbox import ISandbox
from isandbox_backends._shared.client import HelperClient, HelperStartError
from isandbox_backends._shared.helper import HelperProgram
from isandbox_backends._shared.plan import Hostname, Mode, ModeRecord
from isandbox_backends.local import backend as local_backend
from isandbox_backends.local import python_helper as python_helper_module
from isandbox_backends.local.python_helper import python_helper

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the local backend needs Linux or macOS")

_numbers = count(1)


@pytest.fixture
def box() -> Iterator[ISandbox]:
    with create_sandbox("local", helper="python") as sandbox:
        yield sandbox


@pytest.fixture
def nap() -> Iterator[str]:
    """A sleep that no other process of this machine does; nobody may do it in the end."""
    command = f"sleep 8{os.getpid()}.{next(_numbers)}"
    yield command
    left = _running(command)
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    assert not left, f"{len(left)} processes were left behind"


def _running(command: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cmdline() == command.split() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class TestSaying:
    def test_layers_name_the_missing_helper(self, box: ISandbox) -> None:
        """The sandbox itself says which helper runs it."""
        assert box.info.layers["helper"].startswith("absent (")

    def test_weaknesses_are_listed(self, box: ISandbox) -> None:
        """The capability record of the sandbox names each weaker point."""
        assert set(python_helper_module.WEAKNESSES) <= set(box.info.capabilities.weaknesses)
        assert "psutil" in box.info.capabilities.quota("memory").note

    def test_without_the_native_helper_it_runs_and_warns(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Where no compiler was, the backend is available, weaker, and logs one warning for the whole process."""
        monkeypatch.setattr(local_backend, "helper_missing", lambda: "there was no C compiler at installation")
        python_helper_module.warn_once.cache_clear()
        with caplog.at_level(logging.WARNING, logger="isandbox"):
            for _ in range(2):
                with create_sandbox("local") as sandbox:
                    assert sandbox.exec("echo hi").stdout == "hi\n"
                    assert "no C compiler" in sandbox.info.layers["helper"]
        assert len(caplog.records) == 1
        assert set(python_helper_module.WEAKNESSES) <= set(local_backend.LocalBackend().capabilities().weaknesses)

    def test_native_is_never_replaced_when_it_was_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """``helper="native"`` where there is none is an error, not a step down."""
        monkeypatch.setattr(local_backend, "helper_missing", lambda: "it is missing")
        with pytest.raises(BackendUnavailableError, match="it is missing"):
            create_sandbox("local", helper="native")

    def test_an_unknown_helper_is_refused(self) -> None:
        """The option takes three words and no other."""
        with pytest.raises(ConfigurationError, match="helper"):
            create_sandbox("local", helper="rust")

    def test_no_interpreter_no_sandbox(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An embedded Python without an executable says why it cannot run."""
        monkeypatch.setattr(sys, "executable", "")
        with pytest.raises(BackendUnavailableError, match="interpreter"):
            create_sandbox("local", helper="python")


class TestExec:
    def test_streams_and_exit_code(self, box: ISandbox) -> None:
        """Both streams and the exit code come back."""
        result = box.exec("echo out; echo err >&2; exit 3")
        assert (result.stdout, result.stderr, result.exit_code, result.signal, result.fault) == (
            "out\n",
            "err\n",
            3,
            None,
            None,
        )

    def test_stdin_is_at_its_end(self, box: ISandbox) -> None:
        """Without input a command reads the end of the file at once."""
        assert box.exec("wc -c").stdout.strip() == "0"

    def test_large_input(self, box: ISandbox) -> None:
        """50 MiB of input arrive."""
        assert box.exec("wc -c", input=bytes(50 << 20)).stdout.strip() == str(50 << 20)

    def test_merged_streams(self, box: ISandbox) -> None:
        """stderr goes where stdout goes, in order."""
        assert box.exec("echo a; echo b >&2; echo c", stderr="merge").stdout == "a\nb\nc\n"

    def test_long_script(self, box: ISandbox) -> None:
        """A script that is too long for argv runs from a descriptor, which its children do not get."""
        result = box.exec("# " + "x" * 300_000 + "\necho long; test -e /dev/fd/3 || echo closed")
        assert result.stdout == "long\nclosed\n"

    @pytest.mark.parametrize(
        ("argv", "code"), [(["no-such-program"], 127), (["/no/such"], 127), (["/"], 126), (["/etc/passwd"], 126)]
    )
    def test_programs_that_do_not_start(self, box: ISandbox, argv: list[str], code: int) -> None:
        """Not found is 127, not executable 126, each with the reason."""
        result = box.exec(argv)
        assert result.exit_code == code
        assert result.start_error is not None
        assert argv[0] in result.start_error

    def test_missing_cwd(self, box: ISandbox) -> None:
        """A working directory that is not there is a file error."""
        with pytest.raises(FileNotFoundError):
            box.exec("pwd", cwd="nowhere")

    def test_cwd(self, box: ISandbox) -> None:
        """A relative working directory starts at the workspace."""
        box.files.make_dir("sub")
        assert box.exec("pwd", cwd="sub").stdout == f"{box.info.workspace}/sub\n"

    def test_path_of_the_command_is_searched(self, box: ISandbox) -> None:
        """A name without a slash is looked for in the command's own PATH."""
        box.files.write("bin/greet", "#!/bin/sh\necho hello $1\n", mode=0o755)
        assert box.exec(["greet", "you"], env={"PATH": f"{box.info.workspace}/bin:/bin"}).stdout == "hello you\n"

    @pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "PIPE"])
    def test_death_by_signal(self, box: ISandbox, name: str) -> None:
        """Death by signal n is 128 + n, and every signal has its default action."""
        number = signal.Signals[f"SIG{name}"].value
        result = box.exec(["sh", "-c", f"kill -{name} $$; sleep 5"])
        assert (result.exit_code, result.signal) == (128 + number, number)

    def test_signals_reach_the_group(self, box: ISandbox, nap: str) -> None:
        """A signal goes to the command's whole process group."""
        process = box.start(f"{nap} & trap 'exit 9' USR1; echo ready; wait")
        next(iter(process))
        process.signal(signal.SIGUSR1)
        assert process.wait().exit_code == 9

    def test_nothing_of_the_host_is_inherited(self, box: ISandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        """Environment, open files, umask and session are the command's own."""
        monkeypatch.setenv("HOST_SECRET", "hunter2")
        reader, writer = os.pipe()
        os.set_inheritable(reader, True)
        try:
            with create_sandbox("local", helper="python") as sandbox:
                env = sandbox.exec(["env"], env={"MINE": "1"}).stdout
                assert "HOST_SECRET" not in env
                assert "MINE=1\n" in env
                assert sandbox.exec("umask").stdout.strip() in {"022", "0022"}
                # What ls opens itself is the one more.
                assert len(sandbox.exec(["ls", "/dev/fd"]).stdout.split()) == 4
                process = sandbox.start(["sleep", "1"])
                assert process.pid is not None
                assert os.getsid(process.pid) == process.pid
        finally:
            os.close(reader)
            os.close(writer)

    def test_a_handle_writes_and_iterates(self, box: ISandbox) -> None:
        """The pid is known, stdin is written to, output is iterated."""
        process = box.start("cat; echo done")
        assert process.pid is not None
        assert psutil.pid_exists(process.pid)
        process.write_stdin(b"abc\n")
        process.close_stdin()
        assert b"".join(chunk for _, chunk in process) == b"abc\ndone\n"
        assert process.wait().exit_code == 0

    def test_background_child_lingers(self, box: ISandbox, nap: str) -> None:
        """exec returns although a background child lives; closing ends it."""
        result = box.exec(f"{nap} & echo started")
        assert (result.stdout, result.lingering) == ("started\n", True)
        assert _running(nap)
        box.close()
        assert not _running(nap)

    def test_usage_is_reported(self, box: ISandbox) -> None:
        """CPU time, memory and duration of a command are measured."""
        result = box.exec([sys.executable, "-I", "-S", "-c", "x = bytearray(80 << 20)\nfor _ in range(2_000_000): pass"])
        assert result.ok
        assert result.cpu_time > 0
        assert result.max_rss >= 80 << 20
        assert result.duration > 0

    def test_metrics_leave_the_helper_out(self, box: ISandbox, nap: str) -> None:
        """Keepers do not count as processes of the sandbox."""
        with box.start(nap.split()):
            assert _eventually(lambda: box.metrics().processes == 1)


class TestEnds:
    def test_timeout(self, box: ISandbox, nap: str) -> None:
        """A time-out ends the command; the sandbox lives on, and the output so far is there."""
        result = box.exec(f"echo before; trap '' TERM; {nap}; {nap}", timeout=0.4)
        assert (result.fault, result.stdout, result.signal) == ("timeout", "before\n", signal.SIGKILL)
        assert box.exec("echo alive").stdout == "alive\n"

    @pytest.mark.skipif(sys.platform != "linux", reason="orphans come back on Linux only")
    def test_timeout_ends_runaways(self, box: ISandbox, nap: str) -> None:
        """Sessions of their own and double forks do not escape, not even at once after the start."""
        escape = f"(setsid sh -c 'setsid {nap} & {nap}' &) ; setsid {nap} & ( ( setsid {nap} & ) & )"
        result = box.exec(f"{escape}; {nap}", timeout=0.3)
        assert result.fault == "timeout"
        assert not _running(nap)

    def test_timeout_leaves_other_commands_alone(self, box: ISandbox, nap: str) -> None:
        """Only the command whose time is up is ended."""
        with box.start("sleep 1.5 & wait; echo other") as other:
            assert box.exec(f"setsid {nap}", timeout=0.3).fault == "timeout"
            result = other.wait()
        assert (result.stdout, result.exit_code) == ("other\n", 0)

    def test_fork_storm(self, box: ISandbox, nap: str) -> None:
        """Commands that keep starting processes are ended as a whole."""
        result = box.exec(f"while :; do {nap} & sleep 0.001; done", timeout=0.4)
        assert result.fault == "timeout"
        assert _eventually(lambda: not _running(nap))

    def test_output_quota(self) -> None:
        """The output quota ends the command."""
        with create_sandbox("local", helper="python", quotas=Quotas(output=5000)) as sandbox:
            assert sandbox.exec("yes").fault == "output"

    def test_memory_quota(self) -> None:
        """Memory of a command's processes together is watched; the other command lives on."""
        with create_sandbox("local", helper="python", quotas=Quotas(memory="150MiB")) as sandbox:
            small = sandbox.start("sleep 2; echo small")
            hog = f"{sys.executable} -I -S -c 'import time; x = bytearray(70 << 20); time.sleep(20)'"
            result = sandbox.exec(f"for i in 1 2 3 4; do {hog} & done; wait", timeout=15)
            assert result.fault == "oom"
            assert small.wait().stdout == "small\n"

    def test_memory_of_one_process(self) -> None:
        """One process that wants more than the quota is refused by the kernel or ended by the watcher."""
        with create_sandbox("local", helper="python", quotas=Quotas(memory="100MiB")) as sandbox:
            result = sandbox.exec([sys.executable, "-I", "-S", "-c", "bytearray(300 << 20)"], timeout=15)
            assert not result.ok

    @pytest.mark.parametrize(
        "script", ["while :; do :; done", "while :; do sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'; done"]
    )
    def test_cpu_quota(self, script: str) -> None:
        """CPU time is watched, also that of children that have ended already."""
        with create_sandbox("local", helper="python", quotas=Quotas(cpu_time=0.5)) as sandbox:
            assert sandbox.exec(script, timeout=30).fault == "cpu"

    def test_file_size_quota(self) -> None:
        """The kernel holds the size of files, for commands and for file verbs."""
        with create_sandbox("local", helper="python", quotas=Quotas(file_size=1000)) as sandbox:
            assert sandbox.exec("head -c 3000 /dev/zero > big").exit_code != 0
            with pytest.raises(OSError, match="too large"):
                sandbox.files.write("big2", bytes(3000))

    @pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")
    def test_cpus_quota(self) -> None:
        """Whole CPUs are held by affinity."""
        with create_sandbox("local", helper="python", quotas=Quotas(cpus=1)) as sandbox:
            program = "import os; print(len(os.sched_getaffinity(0)))"
            assert sandbox.exec([sys.executable, "-c", program]).stdout == "1\n"

    def test_a_stopped_keeper_goes_on(self, box: ISandbox) -> None:
        """A command that stops its parent does not lose its exit by that."""
        assert box.exec("kill -STOP $PPID; echo stopped", timeout=10).stdout == "stopped\n"

    @pytest.mark.skipif(sys.platform != "linux", reason="orphans come back on Linux only")
    def test_a_murdered_keeper(self, box: ISandbox, nap: str) -> None:
        """A command that kills its parent ends with all its processes, and the sandbox lives on."""
        result = box.exec(f"setsid {nap} & kill -9 $PPID; {nap}", timeout=10)
        assert result.fault == "killed"
        assert _eventually(lambda: not _running(nap))
        assert box.exec("echo alive").stdout == "alive\n"

    def test_a_murdered_helper(self, box: ISandbox, nap: str) -> None:
        """Without its server a sandbox is lost, and the commands end."""
        process = box.start(f"{nap} & {nap}")
        helper = psutil.Process(process.pid).parent().parent()
        helper.kill()
        with pytest.raises(SandboxLostError):
            process.wait()
        assert _eventually(lambda: not _running(nap))

    def test_close_ends_everything(self, nap: str) -> None:
        """Nothing outlives close, and the scratch directory is gone."""
        sandbox = create_sandbox("local", helper="python")
        home = sandbox.exec("echo $HOME").stdout.strip()
        with sandbox:
            sandbox.start(f"setsid {nap} & {nap}")
            assert _eventually(lambda: len(_running(nap)) == 2)
        assert not _running(nap)
        assert not os.path.exists(home)

    def test_host_death(self, nap: str, tmp_path: Path) -> None:
        """When the host process is killed, everything that it started ends."""
        program = (
            "import sys, time\nfrom isandbox.sync import create_sandbox\n"
            "sandbox = create_sandbox('local', helper='python')\n"
            f"sandbox.start('setsid {nap} & {nap}')\nprint('up', flush=True)\ntime.sleep(60)\n"
        )
        own_place = {**os.environ, "TMPDIR": str(tmp_path)}  # the workspace of a killed host stays
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=own_place) as host:
            assert host.stdout is not None
            assert host.stdout.readline() == "up\n"
            assert _eventually(lambda: len(_running(nap)) == 2)
            host.kill()
        assert _eventually(lambda: not _running(nap))


class TestFiles:
    def test_write_read_append(self, box: ISandbox) -> None:
        """Parents are made; ranges and appending work; the mode is exact."""
        box.files.write("a/b.txt", b"0123456789", mode=0o640)
        box.files.write("a/b.txt", b"xy", append=True)
        assert box.files.read_bytes("a/b.txt") == b"0123456789xy"
        assert box.files.read_bytes("a/b.txt", offset=8, limit=3) == b"89x"
        assert box.files.stat("a/b.txt").mode == 0o640

    def test_large_file(self, box: ISandbox) -> None:
        """20 MiB go in and come out."""
        data = os.urandom(20 << 20)
        box.files.write("big", data)
        assert box.files.read_bytes("big") == data

    def test_list_and_stat(self, box: ISandbox) -> None:
        """Entries carry kind, size and link target, and names that are no UTF-8."""
        box.exec("echo abc > f; ln -s f link; mkdir d; mkfifo pipe; touch \"$(printf 'caf\\351')\"")
        found = {entry.name: entry for entry in box.files.list()}
        assert {name: entry.kind for name, entry in found.items()} == {
            "f": "file", "link": "symlink", "d": "directory", "pipe": "other", os.fsdecode(b"caf\xe9"): "file",
        }  # fmt: skip
        assert (found["f"].size, found["link"].target) == (4, "f")
        assert box.files.stat("link").kind == "symlink"
        assert box.files.stat("f").uid == os.getuid()

    def test_rename_and_remove(self, box: ISandbox) -> None:
        """Renaming replaces; a link is removed, not what it points to."""
        box.files.write("a", "1")
        box.files.write("b", "2")
        box.files.rename("a", "b")
        box.exec("mkdir d; touch d/kept; ln -s d link")
        box.files.remove("link", recursive=True)
        assert [entry.name for entry in box.files.list()] == ["b", "d"]
        assert box.files.exists("d/kept")

    def test_errors_are_the_library_s(self, box: ISandbox) -> None:
        """Each failure is the error that the standard library has for it."""
        box.exec("mkdir d; touch d/x f; mkfifo pipe")
        for error, call in [
            (FileNotFoundError, lambda: box.files.read_bytes("none")),
            (IsADirectoryError, lambda: box.files.read_bytes("d")),
            (IsADirectoryError, lambda: box.files.write("d", "")),
            (NotADirectoryError, lambda: box.files.list("f")),
            (NotADirectoryError, lambda: box.files.write("f/x", "")),
            (FileExistsError, lambda: box.files.make_dir("d", parents=False)),
            (FileNotFoundError, lambda: box.files.remove("none")),
            (FileNotFoundError, lambda: box.files.rename("none", "x")),
        ]:
            with pytest.raises(error):
                call()
        for call in (lambda: box.files.remove("d"), lambda: box.files.read_bytes("pipe")):
            with pytest.raises(OSError, match=r"not empty|Invalid"):
                call()

    def test_make_dir(self, box: ISandbox) -> None:
        """With parents an existing directory is no error."""
        box.files.make_dir("a/b/c")
        box.files.make_dir("a/b/c")
        assert box.files.stat("a/b/c").kind == "directory"

    def test_deep_tree(self, box: ISandbox) -> None:
        """A tree 3,000 deep, with a directory that nobody may enter, is removed."""
        grow = "import os\nname = 'd'\nfor _ in range(3000):\n os.mkdir(name)\n os.chdir(name)\n name = 'x'\n"
        box.exec([sys.executable, "-c", grow], check=True)
        box.exec("mkdir -p d/z/y; touch d/z/f; chmod 0 d/z", check=True)
        box.files.remove("d", recursive=True)
        assert box.files.list() == []

    def test_a_slow_operation_blocks_nobody(self, box: ISandbox) -> None:
        """While a large file is written, commands run."""
        process = box.start("while [ ! -s big ]; do sleep 0.01; done; echo seen")
        box.files.write("big", bytes(5 << 20))
        assert process.wait().stdout == "seen\n"


class TestAsync:
    async def test_exec_and_callbacks(self) -> None:
        """The async interface runs over the same helper."""
        async with isandbox.create_sandbox("local", helper="python") as sandbox:
            chunks: list[str] = []
            result = await sandbox.exec(
                "cat; printf 'caf\\303'; sleep 0.1; printf '\\251'", input="x", on_stdout=chunks.append
            )
            assert result.stdout == "xcafé"
            assert "".join(chunks) == "xcafé"
            await sandbox.files.write("f", "text")
            assert await sandbox.files.read_text("f") == "text"

    async def test_twenty_at_once(self) -> None:
        """Commands that run at once do not mix."""
        async with isandbox.create_sandbox("local", helper="python") as sandbox:
            scripts = [f"echo {i}; cat; sleep 0.2; echo {i}" for i in range(20)]
            results = await asyncio.gather(*(sandbox.exec(s, input=f"in {i}\n") for i, s in enumerate(scripts)))
        assert [r.stdout for r in results] == [f"{i}\nin {i}\n{i}\n" for i in range(20)]

    async def test_cancellation_ends_the_command(self, nap: str) -> None:
        """Cancelling the task ends all processes before it goes on."""
        async with isandbox.create_sandbox("local", helper="python") as sandbox:
            task = asyncio.create_task(sandbox.exec(f"setsid {nap} & {nap}"))
            while len(_running(nap)) < 2:  # noqa: ASYNC110 - another process is what is waited for
                await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not _running(nap)
            assert (await sandbox.exec("echo alive")).stdout == "alive\n"

    async def test_timeout_and_runaways(self, nap: str) -> None:
        """A time-out is the same in the async interface."""
        async with isandbox.create_sandbox("local", helper="python") as sandbox:
            result = await sandbox.exec(f"setsid {nap} & {nap}", timeout=0.3)
            assert result.fault == "timeout"
            assert not _running(nap)

    async def test_quotas(self) -> None:
        """Faults are the same in the async interface."""
        quotas = Quotas(cpu_time=0.5, output=5000)
        async with isandbox.create_sandbox("local", helper="python", quotas=quotas) as sandbox:
            assert (await sandbox.exec("while :; do :; done", timeout=30)).fault == "cpu"
            assert (await sandbox.exec("yes")).fault == "output"


def _refused(program: HelperProgram, *records: object) -> HelperStartError:
    client = HelperClient(program, records)  # type: ignore[arg-type]
    try:
        with pytest.raises(HelperStartError) as caught:
            client.wait_ready(time.monotonic() + 20)
        return caught.value
    finally:
        client.hang_up()
        client.reap()


class TestPlan:
    @pytest.mark.parametrize(
        "records", [(ModeRecord(Mode.NAMESPACES),), (ModeRecord(Mode(0)), Hostname("x")), (ModeRecord(Mode(0), pids=5),), ()]
    )
    def test_what_it_cannot_do_is_refused(self, records: tuple[object, ...]) -> None:
        """A plan that asks for more than a launcher is an error, never a weaker sandbox."""
        assert _refused(python_helper(), *records).stage == "plan"

    def test_a_helper_that_does_not_come_up_ends_the_start(self) -> None:
        """A helper that cannot be imported ends the start with an error, not a hang."""
        program = python_helper()
        error = _refused(replace(program, argv=(*program.argv[:-1], "/nonexistent")), ModeRecord(Mode(0)))
        assert (error.stage, error.subject) == ("the helper ended", "without a word")


# The helper as it is on a system without subreapers and without the death signal.
_NO_LINUX = """
import sys
sys.path += sys.argv[1:]
from py_helper import system
system._prctl = lambda *_: False
from py_helper import start
start.main()
"""


class TestElsewhere:
    @pytest.fixture
    def plain(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[ISandbox]:
        """A sandbox with none of what only Linux has, on either side."""
        program = python_helper()
        places = (os.path.dirname(os.path.dirname(program.argv[-2])), program.argv[-1])
        other = replace(program, argv=(*program.argv[:-2], "-c", _NO_LINUX, *places))
        monkeypatch.setattr(local_backend, "python_helper", lambda: other)
        monkeypatch.delattr(os, "memfd_create", raising=False)
        monkeypatch.delattr(os, "pidfd_open", raising=False)
        with create_sandbox("local", helper="python") as sandbox:
            yield sandbox

    def test_exec(self, plain: ISandbox) -> None:
        """Commands, long scripts and file verbs work."""
        assert plain.exec("echo hi").stdout == "hi\n"
        assert plain.exec("# " + "x" * 300_000 + "\necho long").stdout == "long\n"
        plain.files.write("f", "text")
        assert plain.files.read_text("f") == "text"

    def test_timeout_finds_what_was_seen(self, plain: ISandbox, nap: str) -> None:
        """Orphans in sessions of their own are ended if they were seen before they lost their parent."""
        result = plain.exec(f"setsid sh -c '{nap} & sleep 0.4' & {nap}", timeout=1)
        assert result.fault == "timeout"
        assert _eventually(lambda: not _running(nap))

    def test_close_ends_background_children(self, plain: ISandbox, nap: str) -> None:
        """Closing ends what lingers."""
        assert plain.exec(f"setsid {nap} & sleep 0.3").lingering
        plain.close()
        assert _eventually(lambda: not _running(nap))
