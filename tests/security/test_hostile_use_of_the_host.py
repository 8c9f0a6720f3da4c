"""Attacks on the host's side: its reads, its file verbs, its clean-up, its parsers."""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from isandbox import Quotas
from isandbox.sync import create_sandbox
from isandbox_backends._shared import fileverbs, scratch
from isandbox_backends._shared.protocol import Decoder, ProtocolError

pytestmark = pytest.mark.native

# Signals to everything but itself and the first process, for three seconds.
HARASS = """
import os, time
end = time.monotonic() + 3
while time.monotonic() < end:
    for name in os.listdir('/proc'):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            try:
                os.kill(int(name), {signal})
            except OSError:
                pass
"""


def test_a_command_that_reads_its_own_output_cannot_block_the_host(box: Any) -> None:
    """The host's ends of output pipes never block: a command can open its end for reading and win the race against us."""
    process = box.start("read -r line; echo $line")
    outputs = process._ends.outputs
    assert len(outputs) == 2
    assert not any(os.get_blocking(fd) for fd in outputs)
    process._take_output(next(iter(outputs)), 0.0)  # poll has said "readable", and a thief has emptied the pipe
    process.write_stdin(b"whole\n")
    assert process.wait().stdout == "whole\n"


@pytest.mark.parametrize("signal", [19, 20])
def test_a_file_operation_cannot_be_stopped(box: Any, signal: int) -> None:
    """A command that sends stop signals to everything it sees does not hang a file verb of the host."""
    box.exec("head -c 150M /dev/zero > big")
    attacker = box.start(["python3", "-c", HARASS.format(signal=signal)])
    sizes: list[int] = []
    reader = threading.Thread(target=lambda: sizes.append(len(box.read("big"))), daemon=True)
    reader.start()
    reader.join(30)
    attacker.wait()
    assert sizes == [150 << 20]


def test_a_killed_file_operation_is_no_success(box: Any) -> None:
    """A file verb whose process a command kills raises; it never returns half a file as the whole."""
    box.exec("head -c 150M /dev/zero > big")
    attacker = box.start(["python3", "-c", HARASS.format(signal=9)])
    for _ in range(3):
        try:
            assert len(box.read("big")) == 150 << 20
        except OSError:
            continue
    try:
        attacker.wait()
    finally:
        assert box.exec("echo usable").stdout == "usable\n"


@pytest.mark.parametrize("device", ["zero", "full", "urandom", "tty", "ptmx"])
def test_a_link_to_a_device_is_no_result_to_read(box: Any, device: str) -> None:
    """A link to an endless device in the place of a result is refused, not read until memory is full."""
    box.exec(f"ln -s /dev/{device} result; echo fine > file; ln -s file link")
    with pytest.raises(OSError, match=r"Invalid argument|No such device|Permission"):
        box.read("result")
    assert box.read("link") == b"fine\n"


@pytest.mark.parametrize(
    "target", ["/proc/self/exe", "/proc/self/mem", "/proc/1/mem", "/proc/self/fd/3", "/proc/self/oom_score_adj"]
)
def test_a_link_into_the_helper_is_not_written(box: Any, target: str) -> None:
    """A link to the helper's own program, memory or descriptors in the place of a file that the host writes is refused."""
    box.exec(f"ln -s {target} out; ln -s file link")
    with pytest.raises(OSError, match=r"Invalid argument|Permission|Text file busy|No such"):
        box.write("out", b"x")
    box.write("link", b"control")
    assert box.read("file") == b"control"


def test_a_fifo_does_not_block_a_read(box: Any) -> None:
    """A FIFO in the place of a result is refused at once."""
    box.exec("mkfifo result")
    with pytest.raises(OSError, match="Invalid argument"):
        box.read("result")


def test_names_that_removal_uses_cannot_be_taken(sandbox_tmp: Path) -> None:
    """A workspace is removed whatever names a command has prepared in it."""
    with create_sandbox("local") as sandbox:
        (path,) = sandbox._core.scratch
        names = " ".join(f".isandbox-removing-{n}-{os.getpid()}/x" for n in range(8))
        assert sandbox.exec(f"mkdir -p {names} a/b/c d/e/f && chmod 0 a/b d").ok
    assert not Path(path).exists()


def test_a_deep_tree_is_removed(tmp_path: Path) -> None:
    """Directories nested past any path length and recursion limit are removed; a link out of the tree is not followed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("alive")
    with create_sandbox("local") as sandbox:
        (path,) = sandbox._core.scratch
        deep = f"import os\nos.symlink({str(outside)!r}, 'l')\nfor _ in range(3000):\n os.mkdir('d'); os.chdir('d')"
        assert sandbox.exec(["python3", "-c", deep]).ok
    assert not Path(path).exists()
    assert (outside / "canary").read_text() == "alive"


def test_removal_with_foreseeable_names_would_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above sees something: with names that can be foreseen the tree stays."""
    monkeypatch.setattr(scratch.secrets, "token_hex", lambda _: "known")
    tree = tmp_path / "tree"
    for name in (".isandbox-removing-known/x/y", "a/b/c"):
        (tree / name).mkdir(parents=True)
    with pytest.raises(OSError, match="not empty"):
        scratch.remove_tree(str(tree))


def exit_frame(*, errno: int) -> bytes:
    body = struct.pack("<IiIIIIIIQQQ", 1, 0, 0, 0, errno, 4, 0, 0, 0, 0, 0)
    return struct.pack("<IHH", len(body), 5, 0) + body


@pytest.mark.parametrize(
    "frame",
    [
        exit_frame(errno=1 << 31),
        exit_frame(errno=4096),
        struct.pack("<IHH", 1 << 30, 5, 0),
        struct.pack("<IHH", 8, 4, 1) + bytes(8),
        struct.pack("<IHHI", 4, 2, 0, 0xFFFFFFFF),
        struct.pack("<IHH", 0, 99, 0),
    ],
)
def test_a_lying_helper_is_a_protocol_error(frame: bytes) -> None:
    """A reply that no helper sends is refused as such; it does not become an exception of some parser."""
    with pytest.raises(ProtocolError):
        list(Decoder().feed(frame))
    assert len(list(Decoder().feed(exit_frame(errno=2)))) == 1


@pytest.mark.parametrize("name", ["..", ".", "../etc/passwd", "/etc/passwd", "a/b"])
def test_a_listed_name_is_never_a_path(name: str) -> None:
    """A directory entry with a path for a name is refused: somebody may join it to a directory of the host."""

    def entry(text: str) -> bytes:
        body = struct.pack("<IQqII", 0o100644, 0, 0, 0, 0) + text.encode() + b"\0\0"
        return struct.pack("<I", len(body)) + body

    call = fileverbs.list_dir("d")
    with pytest.raises(ProtocolError):
        call.parse(entry(name))
    assert call.parse(entry("plain"))[0].path == "d/plain"


def test_empty_files_are_bounded(make: Any) -> None:
    """Files without content end at the quota too: each takes memory of the kernel."""
    box = make(quotas=Quotas(memory="16MiB"))
    program = "n=0; while [ $n -lt 9000 ] && : > /tmp/$n; do n=$((n+1)); done; echo $n"
    result = box.exec(["/bin/sh", "-c", program])
    assert "No space left" in result.stderr
    assert box.exec("rm -rf /tmp/*; echo usable > /tmp/a && cat /tmp/a").stdout == "usable\n"
