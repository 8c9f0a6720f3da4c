"""Starting a command over pipes: whatever fails, no descriptor is left."""

from __future__ import annotations

import os
from typing import Any

import pytest

from isandbox import ProcessSpec, SandboxError, SandboxLostError
from isandbox_backends._shared import endpoints
from isandbox_backends._shared.endpoints import start_command
from isandbox_backends._shared.protocol import StartFlag


class Client:
    """A helper that takes the START, or fails as told."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.argv: tuple[str, ...] = ()
        self.flags = StartFlag(0)
        self.script = b""
        self.count = 0
        self.killed: list[tuple[int, str]] = []

    def new_id(self) -> int:
        return 7

    def kill(self, id: int, fault: str) -> None:
        self.killed.append((id, fault))

    def start(self, id: int, argv: Any, env: Any, cwd: str, descriptors: Any, *, flags: StartFlag, **_: Any) -> None:
        self.argv, self.flags, self.count = argv, flags, len(descriptors)
        if StartFlag.SCRIPT in flags:
            self.script = os.pread(descriptors[-1], 2 << 20, 0)
        if self.error is not None:
            raise self.error


SPECS = [
    ProcessSpec(argv=("a",)),
    ProcessSpec(argv=("a",), stderr="merge"),
    ProcessSpec(argv=("a",), stdin="pipe", want_pid=True),
    ProcessSpec(argv=("a",), stdin=b"x" * 200_000),
    ProcessSpec(script="y" * 200_000, stdin=b"z"),
]


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("error", [SandboxLostError("gone"), OSError(9, "bad"), KeyboardInterrupt(), ValueError("x")])
@pytest.mark.parametrize("spec", SPECS)
def test_a_start_that_fails_leaves_nothing_open(spec: ProcessSpec, error: BaseException) -> None:
    """Whatever the client raises, all pipes and the script's file are closed."""
    before = descriptors()
    client = Client(error)
    with pytest.raises(SandboxError if isinstance(error, OSError) else type(error)):
        start_command(client, spec, {}, "/")  # type: ignore[arg-type]
    assert descriptors() == before
    if isinstance(error, KeyboardInterrupt):
        assert client.killed == [(7, "cancelled")], "the command may have started by then"


@pytest.mark.parametrize("allowed", range(4))
@pytest.mark.parametrize("spec", SPECS)
def test_running_out_of_descriptors_leaves_nothing_open(
    spec: ProcessSpec, allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EMFILE at the first, second, third or fourth pipe: those that were made are closed."""
    pipe, left = os.pipe, [allowed]

    def scarce() -> tuple[int, int]:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(24, "Too many open files")
        return pipe()

    monkeypatch.setattr(os, "pipe", scarce)
    before = descriptors()
    try:
        start_command(Client(), spec, {}, "/").close()  # type: ignore[arg-type]
    except SandboxError as error:
        assert "Too many open files" in str(error)  # noqa: PT017
    assert descriptors() == before


@pytest.mark.parametrize("spec", SPECS)
def test_a_started_command_holds_only_its_own_ends(spec: ProcessSpec) -> None:
    """The helper's ends are closed here, and closing the rest twice is fine."""
    before = descriptors()
    client = Client()
    ends = start_command(client, spec, {}, "/")  # type: ignore[arg-type]
    assert ends.id == 7
    assert len(descriptors() - before) == 1 + len(ends.outputs) + (ends.stdin >= 0)
    assert client.count == 1 + len(ends.outputs) + (StartFlag.STDIN in client.flags) + (StartFlag.SCRIPT in client.flags)
    ends.close()
    ends.close()
    assert descriptors() == before


@pytest.mark.parametrize(
    ("spec", "flags"),
    [
        (SPECS[0], StartFlag(0)),
        (SPECS[1], StartFlag.MERGE),
        (SPECS[2], StartFlag.STDIN | StartFlag.WANT_STARTED),
        (ProcessSpec(argv=("a",), stdin=b""), StartFlag(0)),
    ],
)
def test_flags(spec: ProcessSpec, flags: StartFlag) -> None:
    """An empty input is EOF at once: no pipe is needed for it."""
    client = Client()
    start_command(client, spec, {}, "/").close()  # type: ignore[arg-type]
    assert client.flags == flags


def test_scripts() -> None:
    """A short script is an argument; a long one travels as a file that the shell reads from a descriptor."""
    client = Client()
    start_command(client, ProcessSpec(script="echo x"), {}, "/").close()  # type: ignore[arg-type]
    assert (client.argv, client.script) == (("/bin/sh", "-c", "echo x"), b"")
    script = "é" * 100_000
    start_command(client, ProcessSpec(script=script), {}, "/").close()  # type: ignore[arg-type]
    assert StartFlag.SCRIPT in client.flags
    assert client.script == b"exec 3<&-; " + script.encode() + b"\n"
    assert len(client.argv[2]) < 100


def test_a_command_that_closed_its_input_is_no_error() -> None:
    """Writing to nobody ends the writing, quietly."""
    reader, writer = os.pipe()
    os.close(reader)
    os.set_blocking(writer, False)
    ends = endpoints.Endpoints(stdin=writer, pending=memoryview(b"x"))
    assert ends.feed_stdin() is False
    assert ends.stdin == -1
