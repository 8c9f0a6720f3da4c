"""`isandbox doctor`: backends, reasons, the default."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isandbox import BackendUnavailableError, create_sandbox
from isandbox.cli.doctor import backends, doctor_command
from isandbox.cli.doctor.backends import Finding, examine, examine_default
from isandbox.cli.doctor.show import layer_lines
from isandbox_backends._shared.helper import helper_path
from isandbox_backends.local import LocalBackend
from isandbox_backends.seccomp import SeccompBackend

WAY_OUT = "the native helper was not built. Install a compiler (apt-get install gcc)"


@pytest.fixture
def no_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where the native backend cannot run."""
    monkeypatch.setattr(SeccompBackend, "unavailable", lambda self: WAY_OUT)
    monkeypatch.delenv("SANDBOX_TYPE", raising=False)


def doctor(isandbox: Any, *arguments: str, **env: str) -> tuple[int, dict[str, Any]]:
    done = isandbox("doctor", "--json", "--quick", *arguments, env={"SANDBOX_TYPE": "", **env})
    return done.returncode, json.loads(done.stdout)


def test_one_row_for_each_backend(isandbox: Any) -> None:
    """Each backend has one row, aliases inside it; local runs everywhere, is tried, and shows its record."""
    _, said = doctor(isandbox)
    rows = {row["name"]: row for row in said["backends"]}
    assert sorted(rows) == [row["name"] for row in said["backends"]]
    assert {"local", "seccomp"} <= set(rows)
    local = rows["local"]
    assert (local["aliases"], local["available"], local["tried"], local["reason"]) == (["node"], True, True, None)
    assert local["isolation"] == "none"
    assert local["quotas"]["open_files"]["kind"] == "kernel"
    assert local["quotas"]["cpu_time"]["period"] > 0
    assert local["policies"]["workspace.ro"]["instead"]
    assert local["weaknesses"]


def test_the_default_and_the_exit_code(isandbox: Any) -> None:
    """SANDBOX_TYPE is told as the one who chose; 0 when that backend runs, 1 with create_sandbox's words when not."""
    code, said = doctor(isandbox, SANDBOX_TYPE="node")
    assert (code, said["default"]) == (0, {"name": "node", "chosen_by": "SANDBOX_TYPE", "reason": None})
    code, said = doctor(isandbox, SANDBOX_TYPE="no-such-type")
    assert code == 1
    assert "no-such-type" in said["default"]["reason"]
    assert "seccomp" in said["default"]["reason"]


@pytest.mark.native
def test_the_platforms_own_backend(isandbox: Any) -> None:
    """Where namespaces work the default is seccomp, tried and found well."""
    code, said = doctor(isandbox)
    assert (code, said["default"]) == (0, {"name": "seccomp", "chosen_by": "platform", "reason": None})
    row = next(row for row in said["backends"] if row["name"] == "seccomp")
    assert (row["available"], row["tried"], row["isolation"]) == (True, True, "os")
    for name in ("user_namespace", "mounts", "capabilities", "no_new_privs", "seccomp", "descriptors"):
        assert row["layers"][name].partition(" ")[0] == "enforced"
    assert row["layers"]["cgroup"].startswith("absent (")


def test_layers_in_force_and_missing_are_told_apart() -> None:
    """Those in force stand in one line, with what they say beside it; each missing one has a line with its reason."""
    lines = list(layer_lines({"seccomp": "enforced", "landlock": "enforced (ABI 7)", "cgroup": "absent (none here)"}))
    assert lines == ["    layers    seccomp, landlock (ABI 7)", "    no layer  cgroup: absent (none here)"]


@pytest.mark.usefixtures("no_helper")
def test_what_is_missing_is_said_as_create_says_it(capfd: pytest.CaptureFixture[str]) -> None:
    """Without a helper doctor prints what to install and exits with 1, create_sandbox refuses in the same words, and neither
    takes local instead."""
    assert doctor_command(as_json=False, quick=True) == 1
    said = capfd.readouterr().out
    with pytest.raises(BackendUnavailableError) as caught:
        create_sandbox()
    assert f"create_sandbox() refuses: {caught.value}" in said
    assert WAY_OUT in said.split("seccomp: not available")[1]
    assert "local (also node): available; isolation none" in said
    assert "Nothing weaker takes its place" in said


def test_a_backend_that_cannot_start_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that thinks that it can run but fails when it is tried is not available, and its error is the reason."""

    def fail(self: object, request: object) -> None:
        raise BackendUnavailableError("the local backend cannot run here: sysctl -w some.thing=1")

    monkeypatch.setattr(LocalBackend, "create_blocking", fail)
    monkeypatch.setenv("SANDBOX_TYPE", "local")
    found = examine("local")
    assert (found.reason, found.capabilities) == ("sysctl -w some.thing=1", None)
    assert examine_default([found]).reason == "sysctl -w some.thing=1"


def test_a_strangers_backend_is_asked_and_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying somebody else's backend could cost money: it is only asked; one that cannot even be imported is a row too."""
    made = []

    class Moon(LocalBackend):
        name = "moon"

        def create_blocking(self, request: object) -> Any:
            made.append(request)

    monkeypatch.setattr(backends, "load_backend", lambda name: Moon())
    assert examine("moon").reason is None
    assert (examine("moon").tried, made) == (False, [])

    def broken(name: str) -> None:
        raise SyntaxError("invalid syntax")

    monkeypatch.setattr(backends, "load_backend", broken)
    assert examine("moon") == Finding("moon", (), "its module fails: SyntaxError: invalid syntax")


def test_help_documents_the_exit_codes(isandbox: Any) -> None:
    """--help says what 0 and 1 mean and which keys --json has."""
    said = isandbox("doctor", "--help").stdout.decode()
    for word in ("0    the backend that create_sandbox() takes", "1    it cannot", "chosen_by", "weaknesses"):
        assert word in said


@pytest.mark.native
def test_every_quota_is_hit(isandbox: Any) -> None:
    """Without --quick each quota of the default backend has a figure: what a command reached is below what it wanted."""
    done = isandbox("doctor", "--json", env={"SANDBOX_TYPE": "seccomp"})
    measured = {one["name"]: one for one in json.loads(done.stdout)["measured"]}
    assert set(measured) == {"memory", "pids", "disk", "file_size", "open_files", "cpu_time", "output", "cpus"}
    for name in ("memory", "pids", "disk", "file_size", "open_files", "cpu_time", "output"):
        assert measured[name]["state"] in {"enforced", "watched"}, measured[name]
        assert measured[name]["reached"] is not None
    for name, word in (("pids", "pids"), ("disk", "disk"), ("cpu_time", "cpu"), ("output", "output")):
        assert measured[name]["detail"] == f"told as {word}"
    assert measured["pids"]["reached"] <= measured["pids"]["asked"] == 16
    assert measured["open_files"]["reached"] == measured["open_files"]["asked"] == 32
    assert measured["file_size"]["reached"] == measured["file_size"]["asked"]


@pytest.mark.native
def test_a_machine_that_is_well(isandbox: Any) -> None:
    """Where sandboxes start no check fails, and each that warns says what to do or why nothing can be done."""
    _, said = doctor(isandbox)
    rows = {row["name"]: row for row in said["host"]}
    assert [name for name, row in rows.items() if row["state"] == "fail"] == []
    assert rows["kernel"]["state"] in {"ok", "warn"}
    assert rows["helper"]["seen"] == f"built: {helper_path()}"
    assert rows["landlock"]["seen"].startswith("ABI ")
    assert said["measured"] == []


def test_what_is_said_does_not_act_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A reason that somebody else's backend gives is shown, not acted upon."""
    monkeypatch.setattr(SeccompBackend, "unavailable", lambda self: "gone\x1b]0;x\x07\nnext line")
    monkeypatch.setenv("SANDBOX_TYPE", "seccomp")
    assert doctor_command(as_json=False, quick=True) == 1
    said = capfd.readouterr().out
    assert r"gone\x1b]0;x\x07 next line" in said
    assert "\x1b" not in said
