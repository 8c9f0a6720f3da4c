"""Kernels and containers that lack something: a refusal that names the layer, or a waiver by name; never a command with less.

What this machine's kernel has is taken away with strace, which answers a call of the helper in the kernel's place; and, as
root, with a real /proc that is masked and a real filter around the whole process.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isandbox import BackendUnavailableError, SandboxError, Workspace
from isandbox.sync import create_sandbox
from isandbox_backends._shared import start
from isandbox_backends._shared.helper import HelperProgram, helper_path

pytestmark = pytest.mark.native
AS_ROOT = os.geteuid() == 0
Traced = Callable[..., None]


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traced]:
    """``traced("CALL:error=E:when=N", ...)``: from now on helpers run under strace with these injections."""
    strace, helper = shutil.which("strace"), helper_path()
    if strace is None:
        assert not os.environ.get("CI"), "strace belongs to what CI installs"
        pytest.skip("strace is not installed: apt-get install strace")
    assert helper is not None
    ended, held = os.pipe()  # strace holds it as long as it runs
    os.set_inheritable(held, True)

    def inject(*faults: str) -> None:
        options = [word for fault in faults for word in ("-e", f"inject={fault}")]
        names = ",".join(sorted({fault.partition(":")[0] for fault in faults}))
        argv = (strace, "-D", "-f", "-b", "execve", "-o", os.devnull, "-e", f"trace={names}", *options, helper)
        monkeypatch.setattr(start, "_native", lambda: HelperProgram(strace, argv))

    yield inject
    os.close(held)
    over = select.select([ended], [], [], 60)[0]
    os.close(ended)
    assert over, "a helper did not end"


@pytest.fixture
def workspace(sandbox_tmp: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=sandbox_tmp) as directory:
        yield Path(directory)


def refused(workspace: Path, **options: object) -> str:
    with (
        pytest.raises(BackendUnavailableError) as caught,
        create_sandbox("seccomp", workspace=Workspace(str(workspace)), start_timeout=30, **options) as sandbox,
    ):
        sandbox.exec("touch marker")
    assert not list(workspace.iterdir()), "a command has run"
    return str(caught.value)


MISSING = [
    ("landlock_create_ruleset:error=ENOSYS:when=1", "landlock", "CONFIG_SECURITY_LANDLOCK"),
    ("landlock_create_ruleset:error=EOPNOTSUPP:when=1", "landlock", "lsm="),
    ("landlock_restrict_self:error=EPERM:when=1", "landlock", "waive={'landlock'}"),
    ("keyctl:error=ENOSYS:when=1", "keyring", "waive={'keyring'}"),
    ("keyctl:error=EPERM:when=1", "keyring", "waive={'keyring'}"),
    ("sethostname:error=EPERM:when=1", "uts_namespace", "waive={'uts_namespace'}"),
    ("clone:error=EPERM:when=1", "user_namespace", "seccomp=unconfined"),
    ("clone:error=ENOSPC:when=1", "user_namespace", "sysctl -w user.max_user_namespaces"),
    ("unshare:error=EPERM:when=1", "net_namespace", "apparmor_restrict_unprivileged_userns=0"),
    ("setns:error=EPERM:when=1", "net_namespace", "apparmor_restrict_unprivileged_userns=0"),
    ("mount:error=EACCES:when=1", "mount_namespace", "apparmor_restrict_unprivileged_userns=0"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "layer", "advice"), MISSING)
def test_what_a_kernel_refuses_is_named(fault: str, layer: str, advice: str, traced: Traced, workspace: Path) -> None:
    """The call that makes a layer fails: nothing runs, and the refusal names the layer and what to do."""
    traced(fault)
    message = refused(workspace)
    assert f"the layer {layer}" in message
    assert advice in message


@pytest.mark.parametrize(
    ("option", "layer"),
    [
        ("PR_SET_SECCOMP", "seccomp"),
        ("PR_SET_NO_NEW_PRIVS", "no_new_privs"),
        ("PR_SET_SECUREBITS", "capabilities"),
        ("PR_CAPBSET_DROP", "capabilities"),
    ],
)
def test_no_prctl_is_left_out(option: str, layer: str, traced: Traced, workspace: Path) -> None:
    """Every refusal of prctl on the way ends the start; which layer it was for is in the words."""
    seen = []
    for turn in range(1, 60):
        traced(f"prctl:error=EPERM:when={turn}")
        try:
            with create_sandbox("seccomp", workspace=Workspace(str(workspace)), start_timeout=30):
                break
        except SandboxError as error:
            seen.append(str(error))
        if f"the layer {layer}" in seen[-1]:
            break
    assert any(f"the layer {layer}" in message for message in seen), option


# Every call of a layer succeeds, and does nothing: no return value tells that. Only a probe does.
PRETENDED = [
    ("landlock_restrict_self:retval=0:when=1", "landlock"),
    ("keyctl:retval=99:when=1", "keyring"),
    ("setns:retval=0:when=1", "net_namespace"),
    ("umount2:retval=0:when=1", "mounts"),
    ("capset:retval=0:when=1", "capabilities"),
]


@pytest.mark.parametrize(("fault", "layer"), PRETENDED)
def test_what_a_kernel_only_pretends_is_found_out(fault: str, layer: str, traced: Traced, workspace: Path) -> None:
    """A call that returns success without an effect: the probe gets through, and the start is refused by the layer's name."""
    traced(fault)
    assert f"the layer {layer}" in refused(workspace)


def test_a_filter_that_is_only_pretended_is_found_out(traced: Traced, workspace: Path) -> None:
    """prctl says that the filter was loaded, and it was not: refused, whichever of the calls it is."""
    messages = []
    for turn in range(40, 60):  # the last of some fifty: one for each capability, then four
        traced(f"prctl:retval=0:when={turn}")
        try:
            create_sandbox("seccomp", workspace=Workspace(str(workspace)), start_timeout=30).close()
        except BackendUnavailableError as error:
            messages.append(str(error))
        if messages and "the layer seccomp" in messages[-1]:
            break
    assert "the layer seccomp is not in force" in messages[-1]


@pytest.mark.parametrize("fault", ["landlock_create_ruleset:error=ENOSYS", "landlock_create_ruleset:error=EOPNOTSUPP"])
def test_no_landlock_and_a_waiver(fault: str, traced: Traced, workspace: Path) -> None:
    """Where the kernel has none, waive={'landlock'} starts a sandbox that says so and has every other layer."""
    traced(fault)
    with create_sandbox("seccomp", workspace=Workspace(str(workspace)), waive={"landlock"}, start_timeout=30) as sandbox:
        assert sandbox.info.layers["landlock"] == "absent (waived)"
        assert sandbox.info.layers["seccomp"] == "enforced (profile default)"
        assert sandbox.exec("touch marker").ok


@pytest.mark.parametrize("abi", range(1, 7))
def test_an_older_landlock_is_used_as_far_as_it_goes(abi: int, traced: Traced, workspace: Path) -> None:
    """With the first six versions of Landlock the layer is in force, and `info.layers` says which rights are missing."""
    traced(f"landlock_create_ruleset:retval={abi}:when=1")
    with create_sandbox("seccomp", workspace=Workspace(str(workspace)), start_timeout=30) as sandbox:
        word = sandbox.info.layers["landlock"]
        assert word.startswith(f"enforced (ABI {abi}")
        assert ("scope_signal" in word) == (abi < 6)
        assert ("truncate" in word) == (abi < 3)
        assert sandbox.exec("touch marker && ! mknod node p 2>/dev/null || true").ok


NESTED = """
import sys
from isandbox import BackendUnavailableError
from isandbox.sync import create_sandbox
try:
    with create_sandbox("seccomp") as sandbox:
        print("started", sandbox.exec("echo ran").stdout)
except BackendUnavailableError as error:
    print("refused:", error)
"""


def run_python(*before: str) -> str:
    done = subprocess.run(
        [*before, sys.executable, "-c", NESTED], capture_output=True, text=True, timeout=60, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# An unprivileged container's filter, in short: clone and unshare with a new user namespace are refused.
CONTAINER_FILTER = """
import ctypes, os, struct, sys
CLONE, UNSHARE = (56, 272) if os.uname().machine == "x86_64" else (220, 97)
def op(code, jt, jf, k): return struct.pack("<HBBI", code, jt, jf, k)
allow, eperm = op(6, 0, 0, 0x7fff0000), op(6, 0, 0, 0x50001)
code = [op(0x20, 0, 0, 0), op(0x15, 1, 0, CLONE), op(0x15, 0, 2, UNSHARE), op(0x20, 0, 0, 16), op(0x45, 1, 0, 0x10000000), allow, eperm]
program = ctypes.create_string_buffer(b"".join(code))
fprog = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, fprog, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_the_control_of_the_containers() -> None:
    """Without a container around it, the same program starts a sandbox."""
    assert run_python().startswith("started ran")


def test_inside_a_containers_filter() -> None:
    """A filter around the whole process that refuses namespaces, as a container's: a refusal that says what to run it with."""
    told = run_python(sys.executable, "-c", CONTAINER_FILTER)
    assert told.startswith(
        "refused: the seccomp backend cannot run here: the layer user_namespace: it may not make namespaces"
    )
    assert "seccomp=unconfined" in told


@pytest.mark.skipif(not AS_ROOT, reason="only root can mask a part of /proc, in a mount namespace of its own")
def test_inside_a_masked_proc() -> None:
    """With a part of /proc covered, as in a container, the kernel gives no fresh one: refused, with what to run it with."""
    told = run_python("unshare", "--mount", "--", "sh", "-c", 'mount --bind /dev/null /proc/version && exec "$@"', "sh")
    assert re.match(r"refused: the seccomp backend cannot run here: the layer mounts: .*systempaths=unconfined", told)


def test_inside_a_sandbox(workspace: Path) -> None:
    """isandbox in its own sandbox, which makes no namespaces: refused there, by the layer's name."""
    for name in ("isandbox", "isandbox_backends"):
        package = Path(sys.modules[name].__file__ or "").parent
        shutil.copytree(package, workspace / name, ignore=shutil.ignore_patterns("__pycache__"))
    (workspace / "nested.py").write_text(NESTED)
    with create_sandbox("seccomp", workspace=Workspace(str(workspace))) as sandbox:
        result = sandbox.exec(["python3", "nested.py"], timeout=60)
    assert "refused: the seccomp backend cannot run here" in result.stdout, result
    assert "user_namespace" in result.stdout or "user namespaces are off" in result.stdout
