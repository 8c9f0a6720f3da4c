"""The `local` backend with its helper in Python: the same contract, kept by weaker means, and said so."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

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


@pytest.fixture
def box() -> Iterator[ISandbox]:
    with create_sandbox("local", helper="python") as sandbox:
        yield sandbox


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

    def test_metrics_leave_the_helper_out(self, box: ISandbox, nap: Any) -> None:
        """Keepers do not count as processes of the sandbox."""
        with box.start(nap.argv):
            assert _eventually(lambda: box.metrics().processes == 1)


class TestEnds:
    @pytest.mark.skipif(sys.platform != "linux", reason="orphans come back on Linux only")
    def test_timeout_ends_runaways(self, box: ISandbox, nap: Any) -> None:
        """Sessions of their own and double forks do not escape, not even at once after the start."""
        escape = f"(setsid sh -c 'setsid {nap} & {nap}' &) ; setsid {nap} & ( ( setsid {nap} & ) & )"
        result = box.exec(f"{escape}; {nap}", timeout=0.3)
        assert result.fault == "timeout"
        assert not nap.running()

    def test_fork_storm(self, box: ISandbox, nap: Any) -> None:
        """Commands that keep starting processes are ended as a whole."""
        result = box.exec(f"while :; do {nap} & sleep 0.001; done", timeout=0.4)
        assert result.fault == "timeout"
        assert nap.soon(0)

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

    def test_a_command_that_its_keeper_traces_has_not_ended(self) -> None:
        """A process that makes its parent its tracer stops; that is not taken for its end, and it is ended by its time-out."""
        with create_sandbox("local", helper="python") as sandbox:
            traced = "import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, None, None); os.kill(os.getpid(), 10)"
            result = sandbox.exec(["python3", "-c", traced], timeout=1)
            assert (result.fault, result.signal, sandbox.exec("echo on").stdout) == ("timeout", 9, "on\n")

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
    def test_a_murdered_keeper(self, box: ISandbox, nap: Any) -> None:
        """A command that kills its parent ends with all its processes, and the sandbox lives on."""
        result = box.exec(f"setsid {nap} & kill -9 $PPID; {nap}", timeout=10)
        assert result.fault == "killed"
        assert nap.soon(0)
        assert box.exec("echo alive").stdout == "alive\n"

    def test_a_murdered_helper(self, box: ISandbox, nap: Any) -> None:
        """Without its server a sandbox is lost, and the commands end."""
        process = box.start(f"{nap} & {nap}")
        helper = psutil.Process(process.pid).parent().parent()
        helper.kill()
        with pytest.raises(SandboxLostError):
            process.wait()
        assert nap.soon(0)

    def test_close_ends_everything(self, nap: Any) -> None:
        """Nothing outlives close, and the scratch directory is gone."""
        sandbox = create_sandbox("local", helper="python")
        home = sandbox.exec("echo $HOME").stdout.strip()
        with sandbox:
            sandbox.start(f"setsid {nap} & {nap}")
            assert nap.soon(2)
        assert not nap.running()
        assert not os.path.exists(home)

    def test_host_death(self, nap: Any, tmp_path: Path) -> None:
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
            assert nap.soon(2)
            host.kill()
        assert nap.soon(0)


class TestFiles:
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

    def test_timeout_finds_what_was_seen(self, plain: ISandbox, nap: Any) -> None:
        """Orphans in sessions of their own are ended if they were seen before they lost their parent."""
        result = plain.exec(f"setsid sh -c '{nap} & sleep 0.4' & {nap}", timeout=1)
        assert result.fault == "timeout"
        assert nap.soon(0)

    def test_close_ends_background_children(self, plain: ISandbox, nap: Any) -> None:
        """Closing ends what lingers."""
        assert plain.exec(f"setsid {nap} & sleep 0.3").lingering
        plain.close()
        assert nap.soon(0)
