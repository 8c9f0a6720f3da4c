"""Every system call of a start is made to fail, one at a time: the start ends with an error, or no layer is missing."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from isandbox import Mount, SandboxError, Workspace
from isandbox.sync import create_sandbox
from isandbox_backends._shared import start
from isandbox_backends._shared.helper import HelperProgram, helper_path

pytestmark = pytest.mark.native

FINGERPRINT = Path(__file__).with_name("fingerprint.sh").read_text()
NAMESPACES = ("user", "mnt", "pid", "ipc", "uts", "cgroup", "net")

# strace answers in the kernel's place, so that a call that is made to fail is not done at all. For these that is no kernel's
# behaviour.
NEVER_INJECTED = {
    "close": "Linux has closed the descriptor whatever close returns (man 2 close)",
    "exit": "it does not return",
    "exit_group": "it does not return",
    "execve": "strace's own, of the helper",
}
# Calls whose failure no start has to end for, as strace shows them, and why. All others must.
HARMLESS = [
    (r"prctl\(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP\)", "root makes the namespaces without capabilities, as any user does"),
    (r"umask\(", "umask cannot fail (man 2 umask)"),
    (r"(unshare\(0|keyctl\(KEYCTL_GET_KEYRING_ID).*EPERM|clone3\(.*ENOSYS", "the helper's own probe, which expects just that"),
    (r"mount_setattr\(.*RDONLY.*IDMAP", "a read-only mount of a file system without id maps: files keep their owners, nothing is opened"),
    (r"wait4\(-1, ", "the server's, once the start is over: asked again at the next death"),
    (r"wait4\(\d+, ?NULL", "the process that held an id map ends by itself; its parent, the launcher, does so too"),
]  # fmt: skip


@pytest.fixture(scope="module")
def strace() -> str:
    found = shutil.which("strace")
    if found is None:
        assert not os.environ.get("CI"), "strace belongs to what CI installs"
        pytest.skip("strace is not installed: apt-get install strace")
    return found


@dataclass
class Outcome:
    """``injected``: the calls that were made to fail, as strace writes them. ``seen``: the fingerprint of a command."""

    error: Exception | None = None
    seen: list[str] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    """(process, call) in order."""

    @property
    def injected(self) -> list[str]:
        return [call for _, call in self.calls if "(INJECTED)" in call]


class Stage:
    """Starts sandboxes whose helper runs under strace."""

    def __init__(self, strace: str, directory: Path) -> None:
        self.strace, self.trace = strace, directory / "trace"
        self.workspace, self.closed = directory / "workspace", directory / "closed"
        for place in (self.workspace, self.closed):
            place.mkdir()
            place.chmod(0o777)
        (self.workspace / "a" / "denied").mkdir(parents=True)
        (self.closed / "file").touch()
        (self.closed / "file").chmod(0o666)

    def create(self, backend: str) -> Any:
        options: dict[str, Any] = {"workspace": Workspace(str(self.workspace))}
        if backend == "seccomp":
            workspace = Workspace(str(self.workspace), deny=("a/denied",))  # a cover, and a pin above it
            options = {"workspace": workspace, "mounts": [Mount(str(self.closed), "/mnt/closed", "ro")]}
        return create_sandbox(backend, start_timeout=20, **options)

    def plain(self, backend: str) -> list[str]:
        with self.create(backend) as sandbox:
            return fingerprint(sandbox)

    def __call__(self, backend: str, *options: str) -> Outcome:
        outcome = Outcome()
        ended, held = os.pipe()  # strace holds it as long as it runs
        os.set_inheritable(held, True)
        helper = helper_path()
        assert helper is not None
        self.trace.unlink(missing_ok=True)
        # -D: the helper is the host's child, as ever. -b: programs that commands run are not traced.
        argv = (self.strace, "-D", "-f", "-b", "execve", "-o", str(self.trace), *options, helper)
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(start, "_native", lambda: HelperProgram(self.strace, argv))
                sandbox = self.create(backend)
            with sandbox:
                outcome.seen = fingerprint(sandbox)
        except SandboxError as error:
            outcome.error = error
        finally:
            os.close(held)
            over = select.select([ended], [], [], 60)[0]
            os.close(ended)
        assert over, f"the helper did not end: {options}"
        outcome.calls = list(calls(self.trace.read_text(errors="replace")))
        return outcome


def calls(trace: str) -> Iterator[tuple[str, str]]:
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        pid, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[pid] = call.removesuffix("<unfinished ...>").rstrip()
        elif (rest := re.match(r"<\.\.\. (\w+) resumed>(.*)", call)) is not None:
            yield pid, begun.pop(pid, f"{rest[1]}(") + rest[2]
        elif re.match(r"\w+\(", call):
            yield pid, call


def fingerprint(sandbox: Any) -> list[str]:
    """What a command sees of its layers, without what differs from one sandbox to the next."""
    result = sandbox.exec(["/bin/sh", "-c", FINGERPRINT], timeout=30)
    assert result.fault is None, result
    if result.start_error is not None:
        return [f"no command: {result.start_error}"]
    found = []
    for line in result.stdout.splitlines():
        if line.startswith("ns "):
            _, kind, name = line.split()
            own = name != os.readlink(f"/proc/self/ns/{kind}")
            found.append(f"ns {kind} {'its own' if own else 'of the host'}")
        else:
            line = re.sub(r"uid=\d+,gid=\d+", "uid=N,gid=N", line)  # noqa: PLW2901
            found.append(line.replace(",idmapped", "") if line.startswith("mount /mnt/closed ro,") else line)
    layers = {name: word for name, word in sandbox.info.layers.items() if name != "landlock"}
    return [*found, *map(str, layers.items())]


def left() -> tuple[set[int], set[str]]:
    """Children, zombies too, and temporary directories."""
    places = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("isandbox-")}
    return {child.pid for child in psutil.Process().children()}, places


@pytest.fixture(scope="module")
def stage(strace: str, sandbox_tmp: Path) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="stage-", dir=sandbox_tmp) as directory:
        os.chmod(directory, 0o755)  # noqa: S103 - the sandbox walks through it
        yield Stage(strace, Path(directory))


@pytest.fixture(scope="module")
def whole(stage: Stage) -> dict[str, list[str]]:
    """The fingerprint of a sandbox that nobody disturbs."""
    return {backend: stage.plain(backend) for backend in ("seccomp", "local")}


def made(stage: Stage, backend: str) -> Counter[str]:
    """The system calls between the start and HELLO, each with the most that one process makes of it."""
    by_process: dict[str, Counter[str]] = {}
    outcome = stage(backend)
    assert outcome.error is None
    for pid, call in outcome.calls:
        if "? ERESTART" in call:  # a signal came; the kernel makes the same call again
            continue
        by_process.setdefault(pid, Counter())[call.partition("(")[0]] += 1
        if re.match(r'write\(\d+, "( |\\260)\\0\\0\\0\\1\\0', call) or call.startswith("write(4, 0x"):  # HELLO
            break
    most: Counter[str] = Counter()
    for counts in by_process.values():
        most |= counts
    return Counter({name: count for name, count in most.items() if name not in NEVER_INJECTED})


# The launcher tells the host of the first process with this frame. Where it cannot (in truth: the host has gone), a host that is
# still there has a zombie that it does not know of.
LAUNCHED = r'write\(4, "\\4\\0\\0\\0\\3\\0'


def reap_unknown() -> None:
    for child in psutil.Process().children():
        if child.status() == psutil.STATUS_ZOMBIE:
            os.waitpid(child.pid, 0)


def check(stage: Stage, whole: list[str], backend: str, fault: tuple[str, str, int]) -> str:
    name, error, turn = fault
    before = left()
    outcome = stage(backend, "-e", f"trace={name}", "-e", f"inject={name}:error={error}:when={turn}")
    if any(re.match(LAUNCHED, call) for call in outcome.injected):
        reap_unknown()
    assert left() == before, fault
    assert outcome.injected, "nothing was injected"
    if outcome.error is not None:
        return "ended"
    missing = [call for call in outcome.injected if not any(re.match(pattern, call) for pattern, _ in HARMLESS)]
    assert not missing, f"{name} failed with {error} and the sandbox started: {missing}"
    assert outcome.seen == whole, fault
    return "harmless"


def test_the_fingerprint_shows_each_layer(stage: Stage, whole: dict[str, list[str]]) -> None:
    """The control: it is the same twice, with or without a tracer, and other where a layer is missing."""
    for backend in ("seccomp", "local"):
        assert stage.plain(backend) == whole[backend]
        assert stage(backend, "-e", "trace=setns").seen == whole[backend]
    assert {f"ns {kind} its own" for kind in NAMESPACES} <= set(whole["seccomp"])
    for line in ("NoNewPrivs: 1", "Seccomp: 2", "CapBnd: 0000000000000000", "session of the first process 1", "umask 0022"):
        assert line in whole["seccomp"]
    assert any("oom_score_adj: Permission denied" in line for line in whole["seccomp"])


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandbox has one uid only, which no command changes")
def test_a_command_never_shares_the_open_memory_of_the_helper(stage: Stage) -> None:
    """Where a change of uid would open the memory that is still the helper's, a capability that is kept bars other commands."""
    outcome = stage("seccomp", "-e", "trace=prctl,setresuid,setsid")
    assert outcome.error is None
    process = next(pid for pid, call in outcome.calls if call.startswith("setresuid(1000"))
    steps = [call.partition(")")[0] for pid, call in outcome.calls if pid == process]
    assert [step.partition(",")[0] for step in steps][:4] == [
        "setsid(", "prctl(PR_SET_KEEPCAPS", "setresuid(1000", "prctl(PR_SET_DUMPABLE",
    ]  # fmt: skip
    assert steps[1].startswith("prctl(PR_SET_KEEPCAPS, 1")
    assert {"CapPrm: 0000000000000000", "CapEff: 0000000000000000"} <= set(outcome.seen)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("error", ["EPERM", *(pytest.param(name, marks=pytest.mark.full) for name in ("ENOMEM", "ENOSYS"))])
@pytest.mark.parametrize("backend", ["seccomp", "local"])
def test_every_call_of_a_start_fails_in_turn(stage: Stage, whole: dict[str, list[str]], backend: str, error: str) -> None:
    """Each occurrence of each call: an error and nothing left, or a call that is harmless and all layers."""
    found: Counter[str] = Counter()
    for name, most in sorted(made(stage, backend).items()):
        found.update(check(stage, whole[backend], backend, (name, error, turn)) for turn in range(1, most + 1))
    assert found["ended"] > 5 * found["harmless"]


# What a keeper and the command's process before exec do, in the order of their first call. A step that fails ends the command.
STEPS = [
    "setsid", "prlimit64", "setresgid", "setresuid", "prctl", "rt_sigprocmask", "chdir", "close_range", "dup3", "openat", "clone",
    "write",
]  # fmt: skip
LEFT_OUT = [
    *HARMLESS,
    (r"close_range\([34], ", "the child's: all that is open by then ends with exec (O_CLOEXEC)"),
    (r"prctl\(PR_SET_NAME", "a name for people who look at a list of processes"),
    (r'openat\(AT_FDCWD, "/proc', "a look at the processes for those that are left, which is repeated"),
    (r"write\(", "the report is not sent: the host says that the sandbox is lost"),
]


class Attached:
    """strace at the first process of a sandbox that is there already: the start is not disturbed, commands are."""

    def __init__(self, strace: str, pid: int, trace: Path, *options: str) -> None:
        command = [strace, "-f", "-b", "execve", "-o", str(trace), *options, "-p", str(pid)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        assert "attached" in self.process.stderr.readline()

    def end(self) -> None:
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.process.wait(60)


def disturbed(stage: Stage, backend: str, name: str, error: str, turn: int) -> Outcome:
    """One command, whose keeper and process have the ``turn``-th call of a name fail."""
    outcome = Outcome()
    with stage.create(backend) as sandbox:
        pid = sandbox._core.client.pid
        attached = Attached(
            stage.strace, pid, stage.trace, "-e", f"trace={name}", "-e", f"inject={name}:error={error}:when={turn}"
        )
        try:
            outcome.seen = fingerprint(sandbox)
        except (SandboxError, OSError) as problem:  # OSError: its working directory could not be entered
            outcome.error = problem
        finally:
            sandbox.close()
            attached.end()
    outcome.calls = list(calls(stage.trace.read_text(errors="replace")))
    return outcome


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user may not attach to the helper, which is not dumpable")
@pytest.mark.parametrize("error", ["EPERM", *(pytest.param(name, marks=pytest.mark.full) for name in ("ENOMEM", "ENOSYS"))])
@pytest.mark.parametrize("backend", ["seccomp", "local"])
def test_no_step_of_a_command_is_left_out(stage: Stage, whole: dict[str, list[str]], backend: str, error: str) -> None:
    """A command whose confinement fails at any call does not run, or the sandbox is lost, or nothing is missing from it."""
    stopped = 0
    for name in STEPS:
        for turn in range(1, 13):
            outcome = disturbed(stage, backend, name, error, turn)
            if not outcome.injected:
                break
            if outcome.error is not None or outcome.seen[0].startswith("no command"):
                stopped += 1
                continue
            missing = [call for call in outcome.injected if not any(re.match(pattern, call) for pattern, _ in LEFT_OUT)]
            assert not missing, f"{name} failed with {error} and the command ran: {missing}"
            assert outcome.seen == whole[backend], (name, error, turn)
    assert stopped > 10
