"""Sandboxes that stay: made, listed, inspected, copied to and from, and ended."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from typing import Any

import pytest

from isandbox.sync import create_sandbox

GENEROUS = 60  # seconds
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the native helper is for Linux")


def test_create_prints_its_id(stay: Any) -> None:
    """The id stands alone on stdout and begins with the backend's name."""
    assert stay.id.startswith(f"{stay.type}-")
    assert stay.id.isascii()
    assert "\n" not in stay.id


def test_ps(stay: Any) -> None:
    """A listing has what there is to know of it, for people and for programs, chosen by label and type."""
    lines = stay.call("ps").stdout.decode().splitlines()
    row = next(line.split() for line in lines if line.startswith(stay.id))
    assert row[1:3] == [stay.type, "running"]
    assert row[-2:] == ["detached", "job=test"]
    assert stay.call("ls", "-q", "--label", "job=test", "--type", stay.type).stdout.decode().split() == [stay.id]
    assert stay.call("ps", "-q", "--label", "job=other").stdout == b""
    (one,) = stay.object("ps", "--label", "job=test")["sandboxes"]
    assert (one["id"], one["type"], one["state"], one["detached"]) == (stay.id, stay.type, "running", True)
    assert one["labels"] == {"job": "test"}
    assert one["expires_at"] is not None


def test_what_is_not_there(stay: Any) -> None:
    """A sandbox or command that nobody knows is 125 and one line that says so."""
    unknown = f"{stay.type}-{'0' * 16}"
    for arguments in (
        ["exec", unknown, "true"],
        ["shell", unknown],
        ["ps", unknown],
        ["logs", unknown],
        ["inspect", unknown],
        ["kill", unknown],
        ["cp", "text", f"{unknown}:text"],
        ["logs", stay.id, "9999"],
        ["kill", "-s", "TERM", stay.id, "9999"],
        ["shell", stay.id, "--attach", "9999"],
        ["exec", "no-such-id", "true"],
    ):
        done = stay.call(*arguments)
        assert (done.returncode, done.stderr.count(b"\n")) == (125, 1), (arguments, done.stderr)
        assert done.stderr.startswith(b"isandbox: ")


def test_a_life_of_nothing(stay: Any) -> None:
    """A lifetime of 0 is refused, not taken for the default."""
    for option in ("--lifetime", "--idle-timeout"):
        done = stay.call("create", "--type", stay.type, "-w", ".:rw", option, "0")
        assert (done.returncode, done.stdout) == (125, b"")
        assert b"seconds above 0" in done.stderr


def test_an_empty_workspace(stay: Any) -> None:
    """-w none gives a sandbox that can be copied to, with nothing of the current directory in it."""
    done = stay.call("create", "--type", stay.type, "-w", "none", "--lifetime", "10m")
    assert (done.returncode, done.stderr) == (0, b"")
    other = done.stdout.decode().strip()
    try:
        (stay.workspace / "copied").write_text("text")
        assert stay.call("cp", "copied", f"{other}:copied").returncode == 0
        assert stay.call("exec", other, "--", "sh", "-c", "ls; cat copied").stdout == b"copied\ntext"
    finally:
        assert stay.call("kill", other).returncode == 0


def test_cp(stay: Any) -> None:
    """Files and trees go in and come out, under their own name in a directory that is there; archives are unpacked inside."""
    here = stay.workspace / "here"
    (here / "tree" / "deep").mkdir(parents=True)
    (here / "tree" / "deep" / "file").write_bytes(b"\x00\xff")
    (here / "a:b").write_text("colon")
    assert stay.exec("mkdir", "dir").returncode == 0
    assert stay.object("cp", "here/./a:b", f"{stay.id}:dir/new") == {"files": 1, "bytes": 5}
    assert stay.call("cp", "here/tree", f"{stay.id}:dir").returncode == 125
    assert stay.call("cp", "-r", "here/tree", f"{stay.id}:dir").returncode == 0
    assert stay.exec("cat", "dir/new", "dir/tree/deep/file").stdout == b"colon\x00\xff"
    assert stay.call("cp", f"{stay.id}:dir/tree", "out").returncode == 125
    assert stay.call("cp", "-r", f"{stay.id}:dir/tree", "out").returncode == 0
    assert stay.call("cp", f"{stay.id}:dir/new", "here").returncode == 0
    assert (stay.workspace / "out" / "deep" / "file").read_bytes() == b"\x00\xff"
    assert (here / "new").read_text() == "colon"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as writing:
        member = tarfile.TarInfo("member")
        member.size = 3
        writing.addfile(member, io.BytesIO(b"tar"))
    assert stay.call("cp", "-", f"{stay.id}:unpacked", input=archive.getvalue()).returncode == 0
    assert stay.exec("cat", "unpacked/member").stdout == b"tar"
    for arguments in (
        [f"{stay.id}:text", "-"],
        ["text", "more"],
        [f"{stay.id}:text", f"{stay.id}:more"],
        ["none", f"{stay.id}:x"],
    ):
        done = stay.call("cp", *arguments)
        assert (done.returncode, done.stderr.count(b"\n")) == (125, 1), arguments


def test_inspect(stay: Any) -> None:
    """What it is, what holds and what it uses is said, for people and for programs."""
    number = stay.start("sleep 1000")
    found = stay.object("inspect", stay.id)
    assert (found["id"], found["state"], found["labels"]) == (stay.id, "running", {"job": "test"})
    assert found["quotas"]["pids"] == 256
    assert found["metrics"]["processes"] >= 1
    assert any(one["id"] == int(number) and one["running"] for one in found["commands"])
    text = stay.call("inspect", stay.id).stdout.decode()
    assert f"workspace    {found['workspace']}\n" in text
    assert "labels       job=test\n" in text
    assert stay.call("kill", "-s", "KILL", stay.id, number).returncode == 0


def test_create_once(stay: Any) -> None:
    """A second create under one key prints the same id, one with other options is refused; kill says what it did."""
    words = ["create", "--type", stay.type, "-w", ".:rw", "--lifetime", "5m", "--idempotency-key", "k1"]
    first, second = (stay.call(*words) for _ in range(2))
    assert first.returncode == 0
    assert first.stdout == second.stdout
    done = stay.call(*words, "--label", "other=1")
    assert (done.returncode, done.stdout) == (125, b"")
    made = first.stdout.decode().strip()
    done = stay.call("kill", made, f"{stay.type}-{'0' * 16}")
    assert (done.returncode, done.stdout) == (125, first.stdout)
    assert stay.object("kill", made) == {"sandboxes": [{"id": made, "killed": False}]}
    assert stay.call("kill", made).returncode == 0
    assert made not in stay.call("ps", "-q").stdout.decode().split()
    assert stay.object("inspect", made)["state"] == "ended"
    assert stay.call(*words).returncode == 125


def test_create_that_nobody_hears_of(stay: Any) -> None:
    """When the id cannot be printed no sandbox is left."""
    with open("/dev/full", "wb") as full:
        words = ["create", "--type", stay.type, "-w", ".:rw", "--label", "lost=1"]
        done = stay.call(*words, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 125
    assert stay.call("ps", "-q", "--label", "lost=1").stdout == b""


def test_create_json(stay: Any) -> None:
    """An object with the id and what it is."""
    made = stay.object("create", "--type", stay.type, "-w", ".:rw", "--idle-timeout", "90", "--label", "a=b")
    try:
        assert (made["lifetime"], made["idle_timeout"], made["labels"], made["type"]) == (3600, 90, {"a": "b"}, stay.type)
    finally:
        assert stay.call("kill", made["id"]).stdout.decode().strip() == made["id"]


def test_sandbox_that_ends(stay: Any, at: Callable[..., Any]) -> None:
    """When the sandbox is killed, exec and shell are 125 and say that it is lost; the terminal is as it was."""
    made = stay.call("create", "--type", stay.type, "-w", ".:rw").stdout.decode().strip()
    screen = at("shell", made, "--", "sh", "-c", "echo ready; exec sleep 1000")
    screen.expect(rb"ready\r\n")
    with stay.open("exec", made, "sh", "-c", "echo ready; exec sleep 1000") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        assert stay.call("kill", made).returncode == 0
        _, said = running.communicate(timeout=60)
    assert (running.returncode, said.count(b"\n")) == (125, 1)
    assert b"lost" in said
    screen.expect(rb"isandbox: [^\r]*lost")
    assert screen.exit_code() == 125
    assert screen.is_as_before()


def test_completion(stay: Any) -> None:
    """A shell completes the ids of sandboxes that run."""
    words = {"_ISANDBOX_COMPLETE": "bash_complete", "COMP_WORDS": f"isandbox exec {stay.type}-", "COMP_CWORD": "2"}
    done = stay.calls(cwd=stay.workspace, env={**stay.env, **words})
    assert f"plain,{stay.id}".encode() in done.stdout.splitlines()


def test_ids_for_another_command(stay: Any) -> None:
    """ps shows what other programs own; -q, whose ids go to kill, leaves it out unless everything is asked for."""
    with create_sandbox(stay.type) as owned:
        assert owned.info.id.encode() in stay.call("ps").stdout
        assert owned.info.id not in stay.call("ps", "-q").stdout.decode().split()
        assert stay.id in stay.call("ps", "-q").stdout.decode().split()
        assert {owned.info.id, stay.id} <= set(stay.call("ps", "-a", "-q").stdout.decode().split())


def test_gc(stay: Any) -> None:
    """Nothing of what lives is removed. A dry run says what would be: no more when it was, nor of a sandbox that kill cleared."""
    words = ["create", "--type", stay.type, "-w", ".:rw", "--lifetime"]
    killed = stay.call(*words, "10m").stdout.decode().strip()
    # On a busy machine a short life is over before it has begun: then there is no id.
    left = next(filter(None, (stay.call(*words, life).stdout.decode().strip() for life in ("0.1", "2", "20"))))
    assert stay.call("kill", killed).returncode == 0
    end = time.monotonic() + GENEROUS
    while left in stay.call("ps", "-q").stdout.decode().split():
        assert time.monotonic() < end
        time.sleep(0.02)
    listed = stay.object("gc", "--dry-run")["removed"]
    assert left in listed
    assert not {stay.id, killed} & set(listed)
    removed = stay.object("gc")["removed"]
    assert left in removed
    assert not {stay.id, killed} & set(removed)
    assert left not in stay.object("gc", "--dry-run")["removed"]
    assert {killed, left} <= set(stay.call("ps", "-a", "-q").stdout.decode().split())
    assert stay.exec("true").returncode == 0


def test_kill_where_nothing_can_be_printed(stay: Any) -> None:
    """On a full disk every sandbox is ended all the same, and 125 says that the ids were not printed."""
    made = [
        stay.call("create", "--type", stay.type, "-w", ".:rw", "--lifetime", "10m").stdout.decode().strip() for _ in range(2)
    ]
    with open("/dev/full", "wb") as full:
        done = stay.call("kill", *made, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr.count(b"standard output: No space left on device")) == (125, 2)
    assert not set(made) & set(stay.call("ps", "-q").stdout.decode().split())
