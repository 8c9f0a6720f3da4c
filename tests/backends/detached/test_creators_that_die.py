"""A host that is killed while it makes a detached sandbox, and failures on the way."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from isandbox import ConfigurationError, SandboxError, SandboxNotFoundError, StateError, sync
from isandbox._state.places import Place
from isandbox._state.register import Register
from isandbox_backends._shared.detached import making, note, starting

from .conftest import LIFETIME, Other, entered, eventually, leftovers, reaped, states

pytestmark = pytest.mark.native

# Calls after which the maker is killed, in the order in which a creation makes them.
STAGES = [
    "isandbox._state.register:Register.begin",
    "isandbox._state.places:Places.make",
    "isandbox_backends._shared.detached.note:blank",
    *(["isandbox_backends._shared.cgroups.group:SandboxGroup.make"] if os.geteuid() == 0 else []),  # others have none here
    "isandbox_backends._shared.client:HelperClient.__init__",
    "isandbox_backends._shared.detached.starting:DetachedStart._launched",
    "isandbox_backends._shared.client:HelperClient.wait_ready",
    "isandbox_backends._shared.detached.note:fill",
    "isandbox._state.places:Place.publish",
    "isandbox._state.register:Register.running",
]
KILLED_AFTER = """
import os, signal
from importlib import import_module
module, _, path = args[1].partition(":")
owner, name = import_module(module), path
if "." in path:
    cls, _, name = path.partition(".")
    owner = getattr(owner, cls)
original = getattr(owner, name)
def then_die(*arguments, **named):
    original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, then_die)
from isandbox.policy import Quotas
options = {"cgroup": "require", "quotas": Quotas(memory="64MiB")} if os.geteuid() == 0 else {}
sync.create_sandbox(args[0], detached=True, lifetime=300, **options)
"""


@pytest.mark.parametrize(
    ("backend", "stage"),
    [*(("seccomp", stage) for stage in STAGES), ("local", STAGES[0]), ("local", STAGES[-5]), ("local", STAGES[-1])],
    ids=lambda word: word.partition(":")[2] or word,
)
def test_killed_at_a_stage(backend: str, stage: str, other: Other, state: Path) -> None:
    """Whatever has been made by then, its processes end by themselves, and a reap removes the rest."""
    process = other(KILLED_AFTER, backend, stage, wait=False)
    process.communicate(timeout=60)
    assert process.returncode == -9, "the stage was never reached"
    assert eventually(lambda: "running" not in states(state))
    assert eventually(lambda: sync.reap() is not None and not list((state / "sandboxes").glob("*")))
    assert eventually(lambda: not any(leftovers(name, state) for name in entered(state)))
    assert reaped(state) == []


def test_killed_after_its_release(backend: str, other: Other, state: Path) -> None:
    """From then on the sandbox is everybody's: it lives on, and is found."""
    stage = "isandbox_backends._shared.detached.starting:DetachedStart.release"
    process = other(KILLED_AFTER, backend, stage, wait=False)
    process.communicate(timeout=60)
    assert process.returncode == -9
    (name,) = entered(state)
    with sync.connect(name) as sandbox:
        assert sandbox.exec(["true"]).ok
    assert sync.kill_sandbox(name) is True


def refuse(error: BaseException) -> object:
    def failing(*_: object, **__: object) -> None:
        raise error

    return failing


FULL, STOPPED = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (Register, "begin", StateError("no room left")),
        (Register, "begin", STOPPED),
        (note, "blank", FULL),
        (making, "_listening", FULL),
        (making, "_listening", STOPPED),
        (starting, "helper_of", STOPPED),
        (note, "fill", FULL),
        (Place, "publish", StateError("no room left")),
        (Register, "running", StateError("no room left")),
        (Register, "running", STOPPED),
        (starting, "encode_release", STOPPED),
    ],
)
def test_a_failure_on_the_way(backend: str, owner: object, name: str, error: BaseException, state: Path) -> None:
    """A full disk, a Ctrl-C, a register that is in use: the error comes out, and nothing is left."""
    gc.collect()  # what an earlier test has dropped
    before = set(os.listdir("/proc/self/fd"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, refuse(error))
        expected: tuple[type[BaseException], ...] = (SandboxError, OSError) if isinstance(error, OSError) else (type(error),)
        with pytest.raises(expected):
            sync.create_sandbox(backend, detached=True, lifetime=LIFETIME)
    assert set(os.listdir("/proc/self/fd")) <= before
    assert entered(state) == []
    assert not list((state / "sandboxes").glob("*"))
    assert reaped(state) == []


def test_one_key_one_sandbox(backend: str, other: Other) -> None:
    """From two processes at once, and again: the same sandbox; with other options an error; after its end not another one."""
    code = "with sync.create_sandbox(args[0], detached=True, lifetime=300, idempotency_key='k') as s: say(s.info.id); input(); s.detach()"
    program = (
        "import sys, json\nargs = sys.argv[1:]\ndef say(v): print(json.dumps(v), flush=True)\nfrom isandbox import sync\n"
        + code
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, backend], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    names = set()
    for process in running:
        assert process.stdout is not None
        names.add(process.stdout.readline())
    for process in running:
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    (name,) = (word.strip().strip('"') for word in names)
    options = {"detached": True, "lifetime": 300, "idempotency_key": "k"}
    again = sync.create_sandbox(backend, **options)  # type: ignore[arg-type]
    assert again.info.id == name
    with pytest.raises(ConfigurationError, match="other options"):
        sync.create_sandbox(backend, env={"A": "1"}, **options)  # type: ignore[arg-type]
    again.close()
    with pytest.raises(SandboxNotFoundError, match="has ended"):
        sync.create_sandbox(backend, **options)  # type: ignore[arg-type]


def test_a_key_whose_sandbox_is_still_being_made(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past start_timeout nobody knows whether there will be one: the error says unknown, and that asking again may help."""
    fresh = Register.begin
    with monkeypatch.context() as patch:
        patch.setattr(making.Attempt, "_make", lambda *_: SimpleNamespace())
        patch.setattr(making, "_tell", lambda *_: None)
        patch.setattr(making, "BlockingNative", lambda *_: None)
        sync.create_sandbox(backend, detached=True, lifetime=300, idempotency_key="slow")
    assert Register.begin is fresh
    with pytest.raises(SandboxError, match="still making") as caught:
        sync.create_sandbox(backend, detached=True, lifetime=300, idempotency_key="slow", start_timeout=0.3)
    assert (caught.value.outcome, caught.value.retryable) == ("unknown", True)
