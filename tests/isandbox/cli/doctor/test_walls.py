"""The doctor on hosts that are really so: each is made in a user namespace, and gone with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from isandbox_backends._shared.helper import helper_path

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare: apt-get install util-linux"),
]


# An ordinary user of the namespace: its root would want ids that are not mapped there.
AS_USER = "unshare --user --map-user=1000 --map-group=1000"


def doctor(program: str, change: str, become: str = "") -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Exit code, the row of the native backend, and the checks by name, on a host that ``change`` was made to."""
    script = f'set -eu; {change}; exec {become} "$0" doctor --json --quick'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, program]
    env = {**os.environ, "SANDBOX_TYPE": "seccomp"}
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, env=env)
    assert done.stderr == b""
    said = json.loads(done.stdout)
    native = next(row for row in said["backends"] if row["name"] == "seccomp")
    return done.returncode, native, {row["name"]: row for row in said["host"]}


def test_the_control(program: str) -> None:
    """Where nothing was changed sandboxes start, and no check fails."""
    code, native, checks = doctor(program, "true", AS_USER)
    assert (code, native["reason"]) == (0, None)
    assert [name for name, row in checks.items() if row["state"] == "fail"] == []


def test_parts_of_proc_are_masked(program: str) -> None:
    """As in a container: sandboxes do not start, and the wall and the option that opens it are named."""
    code, native, checks = doctor(program, "mount -t tmpfs none /proc/fs; export container=docker", AS_USER)
    assert code == 1
    assert "systempaths=unconfined" in native["reason"]
    assert (checks["container"]["state"], "masked" in checks["container"]["seen"]) == ("fail", True)
    assert "--security-opt systempaths=unconfined" in checks["container"]["fix"]


def test_no_user_namespaces(program: str) -> None:
    """Where none may be made the setting is named, with the command that changes it."""
    code, native, checks = doctor(program, "echo 0 > /proc/sys/user/max_user_namespaces")
    assert code == 1
    assert "user namespaces are off" in native["reason"]
    assert checks["user_namespaces"]["state"] == "fail"
    assert "max_user_namespaces" in checks["user_namespaces"]["fix"]


def test_a_package_that_is_mounted_noexec(program: str) -> None:
    """A helper that is there and may not be executed is not told as one that was never built."""
    place = os.path.dirname(str(helper_path()))
    change = f"mount --bind '{place}' '{place}'; mount -o remount,bind,noexec '{place}'"
    code, native, checks = doctor(program, change)
    assert code == 1
    assert "cannot be executed" in native["reason"]
    assert "compiler" not in native["reason"]
    assert checks["helper"]["state"] == "ok"
    assert (checks["executable"]["state"], checks["executable"]["fix"]) == ("fail", f"sudo mount -o remount,exec {place}")
