"""A backend from somebody else's wheel, through the entry point and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.package

HERE = Path(__file__).parent
DIST = "tiny_backend-1.0.dist-info"
METADATA = "Metadata-Version: 2.1\nName: tiny-backend\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY_POINTS = (
    "[isandbox.backends]\ntiny = tiny_backend:TinyBackend\nlocal = tiny_backend:TinyBackend\nneedy = tiny_needy:Backend\n"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel installed in it."""
    place = tmp_path_factory.mktemp("third-party")
    wheel = place / "tiny_backend-1.0-py3-none-any.whl"
    names = {
        "tiny_backend.py": (HERE / "tiny_backend.py").read_text(encoding="utf-8"),
        "tiny_needy.py": "import tiny_sdk_that_is_not_there\n",
        f"{DIST}/METADATA": METADATA,
        f"{DIST}/WHEEL": WHEEL,
        f"{DIST}/entry_points.txt": ENTRY_POINTS,
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in names.items():
            archive.writestr(name, text)
        archive.writestr(f"{DIST}/RECORD", "".join(f"{name},,\n" for name in [*names, f"{DIST}/RECORD"]))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(place / "site"), str(wheel)], check=True, timeout=100, capture_output=True)
    return place / "site"


def child(site: Path, code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(site), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_it_is_listed(site: Path) -> None:
    """Beside ours, once each, sorted."""
    (names,) = child(site, "import isandbox; print(*isandbox.backend_names())")
    assert {"tiny", "local", "node", "seccomp"} <= set(names.split())
    assert names.split() == sorted(set(names.split()))


def test_async(site: Path) -> None:
    """By name and by SANDBOX_TYPE: commands, files, options, closing."""
    code = """
import asyncio, isandbox
async def main():
    async with isandbox.create_sandbox("tiny", name="mine") as sbx:
        print(sbx.info.id, (await sbx.exec("echo $A", env={"A": "1"})).stdout.strip())
        await sbx.files.write("a", "text")
        print(await sbx.files.read_text("a"), (await sbx.exec(["sh", "-c", "exit 3"])).exit_code)
        print((await sbx.exec(["cat"], input="in")).stdout)
    try:
        await sbx.exec("true")
    except isandbox.SandboxClosedError:
        print("closed")
    sbx = await isandbox.create_sandbox()
    print(type(sbx).__name__)
    await sbx.close()
asyncio.run(main())
"""
    assert child(site, code, SANDBOX_TYPE="tiny") == ["mine 1", "text 3", "in", "closed", "TinySandbox"]


def test_blocking_through_the_bridge(site: Path) -> None:
    """A backend that knows nothing of blocking callers serves them: commands, files, iteration, callbacks, run, close."""
    code = """
import isandbox, threading
from isandbox.sync import create_sandbox, run
with create_sandbox("tiny") as sbx:
    print(sbx.exec("echo out").stdout.strip(), sbx.exec(["sh", "-c", "kill -9 $$"]).signal)
    sbx.files.write("d/a", b"bytes")
    print(sbx.files.read_bytes("d/a").decode(), [entry.name for entry in sbx.files.list("d")])
    with sbx.start("echo one; echo two") as process:
        print(*(chunk.decode().strip() for _, chunk in process), process.wait().exit_code)
    seen = []
    sbx.exec("echo a; echo b", on_stdout=seen.append)
    print("".join(seen).split())
    try:
        sbx.files.read_text("missing")
    except FileNotFoundError as error:
        print(error.filename)
    threads = [threading.Thread(target=lambda: print(sbx.exec("echo t").stdout, end="")) for _ in range(3)]
    [t.start() for t in threads], [t.join(30) for t in threads]
try:
    sbx.exec("true")
except isandbox.SandboxClosedError:
    print("closed")
result = run(["cat"], type="tiny", input="x", files={"out/a": "1"}, collect=["out/*"])
print(result.stdout, dict(result.files))
"""
    assert child(site, code) == [
        "out 9", "bytes ['a']", "one two 0", "['a', 'b']", "missing", "t", "t", "t", "closed", "x {'out/a': b'1'}",
    ]  # fmt: skip


def test_the_contract_runs_against_it(site: Path, tmp_path: Path) -> None:
    """A stranger's backend can claim groups of the contract, and hold them through both interfaces, with a class each."""
    (tmp_path / "test_tiny.py").write_text("""
from isandbox import create_sandbox
from isandbox.testing import ThroughSync
from isandbox.testing.contract.cancellation import CancellationPromises
from isandbox.testing.contract.errors import ErrorPromises
from isandbox.testing.contract.files import FilePromises
from isandbox.testing.contract.names import HostileNamePromises

class TestTiny(FilePromises, HostileNamePromises, CancellationPromises, ErrorPromises):
    @classmethod
    def create(cls, **options):
        return create_sandbox("tiny", **options)

class TestTinyBlocking(ThroughSync, TestTiny):
    pass
""")
    loops = [f"asyncio_default_{what}_loop_scope=class" for what in ("fixture", "test")]
    settings = [word for setting in ("asyncio_mode=auto", *loops) for word in ("-o", setting)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *settings, "test_tiny.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False, env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_ctrl_c_through_the_bridge(site: Path) -> None:
    """Ctrl-C ends the command that is waited for, then raises KeyboardInterrupt; the sandbox is still of use."""
    code = """
import os, signal, threading, tiny_backend
from isandbox.sync import create_sandbox
from isandbox.sync._bridge import BridgedProcess
started, pids = threading.Event(), []
wait = BridgedProcess.wait
def waiting(self):
    pids.append(self.pid)
    started.set()
    return wait(self)
BridgedProcess.wait = waiting
def interrupt():
    assert started.wait(30)
    os.kill(os.getpid(), signal.SIGINT)
with create_sandbox("tiny") as sbx:
    threading.Thread(target=interrupt).start()
    try:
        sbx.exec(["sleep", "600"], timeout=None)
    except KeyboardInterrupt:
        print("interrupted", tiny_backend.ENDED == pids, os.path.exists(f"/proc/{pids[0]}"))
    BridgedProcess.wait = wait
    print(sbx.exec("echo on").stdout.strip())
"""
    assert child(site, code) == ["interrupted True False", "on"]


def test_a_fork_of_a_bridged_sandbox_is_refused(site: Path) -> None:
    """The child has no loop thread: SandboxClosedError, no hang; the parent's goes on."""
    code = """
import os, isandbox, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads: that is the point
from isandbox.sync import create_sandbox
with create_sandbox("tiny") as sbx:
    pid = os.fork()
    if pid == 0:
        try:
            sbx.exec("true")
        except isandbox.SandboxClosedError:
            os._exit(7)
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sbx.exec("echo on").stdout.strip())
"""
    assert child(site, code) == ["7 on"]


def test_it_takes_nothing_over(site: Path) -> None:
    """An entry point by the name of a built-in backend is not that backend."""
    code = "from isandbox._registry import load_backend; print(type(load_backend('local')).__module__)"
    assert child(site, code) == ["isandbox_backends.local.backend"]


def test_its_missing_dependency_names_its_distribution(site: Path) -> None:
    """What to install is the other project's business, so the hint is not an extra of ours."""
    code = """
import isandbox
try:
    isandbox.create_sandbox("needy")
except isandbox.BackendUnavailableError as error:
    print(error)
"""
    (said,) = child(site, code)
    assert "tiny_sdk_that_is_not_there" in said
    assert "tiny-backend" in said
    assert "isandbox[" not in said
