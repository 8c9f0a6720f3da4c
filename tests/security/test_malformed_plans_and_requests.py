"""The helper's parsers against mutated plans and requests; it runs inside a sandbox, so that a mutant can do no harm."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from isandbox import Workspace
from isandbox.policy import Policy
from isandbox_backends._shared.helper import helper_path
from isandbox_backends._shared.plan import Mode, ModeRecord, Rlimit, encode_plan
from isandbox_backends._shared.protocol import StartFlag
from isandbox_backends._shared.requests import encode_start
from isandbox_backends.seccomp import backend
from isandbox_backends.seccomp.covers import Source
from isandbox_backends.seccomp.ids import of_range

pytestmark = pytest.mark.native

DRIVER = r"""
import array, random
R = random.Random(SEED)
WORDS = [0, 1, 2, 3, 4, 7, 8, 16, 255, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff8]
read = lambda name: open("/workspace/" + name, "rb").read()
isolated, launcher, start, operation = map(read, ("isolated", "launcher", "start", "operation"))

def mutate(data):
    data = bytearray(data)
    for _ in range(R.randrange(1, 5)):
        at, kind = R.randrange(len(data)), R.randrange(4)
        if kind == 0:
            data[at] = R.randrange(256)
        elif kind == 1:
            data[at // 4 * 4 : at // 4 * 4 + 4] = R.choice(WORDS).to_bytes(4, "little")
        elif kind == 2:
            data[at : at + R.randrange(16)] = b""
        else:
            data[at:at] = data[: R.randrange(64)]
        data = data or bytearray(1)
    return data

def as_plan(data):
    if len(data) >= 16 and R.random() < 0.9:
        data[0:12] = b"ISBP" + (1).to_bytes(4, "little") + len(data).to_bytes(4, "little")
    return bytes(data)

def as_frame(data):
    if len(data) >= 8 and R.random() < 0.8:
        data[0:4] = (len(data) - 8).to_bytes(4, "little")
    return bytes(data)

def answered(data):  # HELLO or ERROR has come, whole
    while len(data) >= 8:
        length, kind = int.from_bytes(data[:4], "little"), int.from_bytes(data[4:6], "little")
        if kind in (1, 2) and len(data) >= 8 + length:
            return True
        data = data[8 + length:]
    return False

def run(plan, frames):
    memory = os.memfd_create("plan")
    os.write(memory, plan)
    ours, theirs = socket.socketpair()
    moves = [(os.POSIX_SPAWN_DUP2, a, b) for a, b in ((memory, 103), (theirs.fileno(), 104), (103, 3), (104, 4))]
    pid = os.posix_spawn("/workspace/helper", ["helper"], {}, file_actions=moves)
    os.close(memory)
    theirs.close()
    ours.settimeout(1)
    try:
        answer = b""
        while not answered(answer) and (piece := ours.recv(4096)):
            answer += piece
        for frame in frames:
            pipes = [os.pipe() for _ in range(3)]
            try:
                ours.sendmsg([frame], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [w for _, w in pipes]))])
            finally:
                for fd in sum(pipes, ()):
                    os.close(fd)
    except OSError:
        pass
    ours.close()
    for _ in range(3000):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return "exit %d" % os.WEXITSTATUS(status) if os.WIFEXITED(status) else "signal %d" % os.WTERMSIG(status)
        time.sleep(0.001)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hangs"

for turn in range(COUNT):
    frames = [as_frame(mutate(R.choice((start, operation)))) for _ in range(2)]
    cases = [(as_plan(mutate(isolated)), []), (as_plan(mutate(launcher)), [start]), (launcher, frames)]
    ended = run(*cases[turn % 3])
    out[ended] = out.get(ended, 0) + 1
out["control"] = run(launcher, [start])
"""


def prepare(place: Path) -> None:
    helper = helper_path()
    assert helper is not None
    shutil.copy(helper, place / "helper")
    plan = backend.compile_plan(Policy(), Source("/tmp", "/workspace", writable=True, is_dir=True), [], of_range(0x7800_0000))
    environment = {"PATH": "/bin"}
    options: dict[str, Any] = {"flags": StartFlag(0), "timeout": 1.0, "descriptors": 3}
    (place / "isolated").write_bytes(encode_plan(plan))
    (place / "launcher").write_bytes(encode_plan([ModeRecord(flags=Mode(0)), Rlimit(4, 0, 0)]))
    (place / "start").write_bytes(encode_start(1, ["/bin/true", "a"], environment, "/tmp", **options))
    (place / "operation").write_bytes(encode_start(2, ["/nothing", "", ""], {}, "/tmp", **options, operation=1))


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 600), pytest.param(2, 20_000, marks=[pytest.mark.full, pytest.mark.timeout(600)])]
)
def test_the_helper_refuses_what_it_cannot_parse(make: Any, probes: Any, tmp_path: Path, seed: int, count: int) -> None:
    """A mutated plan or request ends the helper in order: it says why, and neither crashes nor hangs."""
    prepare(tmp_path)
    box = make(workspace=Workspace(str(tmp_path), mode="ro"))
    ended = probes.run(box, DRIVER, timeout=500, SEED=seed, COUNT=count)
    assert ended.pop("control") == "exit 0"
    assert set(ended) <= {"exit 0", "exit 125"}
    assert ended["exit 125"] > count // 4
