"""What importing costs and needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in {"SANDBOX_TYPE", "PYTHONWARNINGS"}}


def child(code: str) -> str:
    """What a fresh interpreter prints; its errors are ours."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


HEAVY = [
    "asyncio",
    "click",
    "psutil",
    "pydantic",
    "subprocess",
    "ctypes",
    "logging",
    "importlib.metadata",
    "isandbox_backends",
    "rich",
    "tomllib",
    "difflib",
]


@pytest.mark.parametrize("module", ["isandbox", "isandbox.testing"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    """No event loop, no command-line or data library, no backend before it is used."""
    before = set(child("import sys; print(*sys.modules)").split())
    after = set(child(f"import sys, {module}; print(*sys.modules)").split())
    assert (after - before) & set(HEAVY) == set()


def test_the_records_need_no_event_loop() -> None:
    """Policies, quotas and errors are plain data."""
    code = "import sys; from isandbox import Policy, Quotas, ConfigurationError; print('asyncio' in sys.modules)"
    assert child(code) == "False\n"


@pytest.mark.parametrize("platform", ["darwin", "freebsd14"])
@pytest.mark.parametrize("interface", ["isandbox", "isandbox.sync"])
def test_other_platforms_import_and_say_what_they_cannot(platform: str, interface: str) -> None:
    """Importing works everywhere; making a sandbox is BackendUnavailableError with a sentence."""
    code = f"""
import sys
sys.platform = {platform!r}
import isandbox, isandbox.sync, isandbox.testing
for name in isandbox.__all__:
    getattr(isandbox, name)
from {interface} import create_sandbox
for arguments in ((), ("seccomp",)):
    try:
        create_sandbox(*arguments)
    except isandbox.BackendUnavailableError as error:
        print(error)
"""
    said = child(code).splitlines()
    assert len(said) == 2
    assert all(platform in line and len(line.split()) > 5 for line in said), said


def test_a_host_without_posix_modules_is_told_so() -> None:
    """On Windows there is no fcntl and no resource: the answer is the platform, not an extra to install."""
    code = """
import sys
sys.platform = "win32"
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
import isandbox
for name in ("seccomp", "local"):
    try:
        isandbox.create_sandbox(name)
    except isandbox.BackendUnavailableError as error:
        print(error)
"""
    said = child(code).splitlines()
    assert len(said) == 2
    assert all("win32" in line and "pip install" not in line for line in said), said


def test_importing_changes_nothing_in_the_process() -> None:
    """No thread, no signal handler, no child, no open file, no variable."""
    code = """
import os, signal, sys, threading
def state():
    handlers = [signal.getsignal(n) for n in range(1, 32) if n not in (9, 19)]
    return threading.active_count(), handlers, sorted(os.listdir("/proc/self/fd")), dict(os.environ), os.umask(0o22), os.getcwd()
before = state()
import isandbox, isandbox.sync, isandbox_backends.seccomp, isandbox_backends.local
print(before == state())
"""
    assert child(code) == "True\n"
