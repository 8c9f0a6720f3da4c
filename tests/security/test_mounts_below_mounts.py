"""What is mounted on the host below a directory that is given: read-only with it, or not seen; never writable by accident."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(
        shutil.which("unshare") is None, reason="needs unshare of util-linux, for a mount namespace of its own"
    ),
]

# Runs in a mount namespace of its own, where it may mount something; the test process stays as it is.
PROGRAM = """
import ctypes, json, os, sys
from isandbox import Mount, Workspace
from isandbox.sync import create_sandbox

top = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
for name in ("sub", "home/.ssh"):
    if libc.mount(b"tmpfs", f"{top}/{name}".encode(), b"tmpfs", 0, b"mode=0777"):
        raise OSError(ctypes.get_errno(), "mount")
    with open(f"{top}/{name}/file", "w") as file:
        file.write("below")
    os.chmod(f"{top}/{name}/file", 0o666)
os.environ["HOME"] = f"{top}/home"
mounts = [Mount(f"{top}/sub", "/rw", "rw"), Mount(f"{top}/home", "/h")]
with create_sandbox("seccomp", workspace=Workspace(top, mode="ro"), mounts=mounts) as box:
    found = {
        "seen": box.exec("cat sub/file").stdout,
        "written": box.exec("echo x > sub/file || echo x > sub/new").ok,
        "secret": box.exec("cat home/.ssh/file /h/.ssh/file; ls -A home/.ssh /h/.ssh").stdout,
        "control": box.exec("echo y > /rw/file && cat /rw/file").stdout,
        "flags": [line.split()[5] for line in box.exec("cat /proc/self/mountinfo").stdout.splitlines()
                  if line.split()[4].startswith(("/workspace", "/rw", "/h/"))],
    }
json.dump(found, sys.stdout)
"""


def run_in_a_namespace(program: str, *args: str) -> Any:
    # An ordinary user needs a user namespace too, and keeps its id and the capabilities of that one.
    own = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    command = ["unshare", *own, "--mount", "--propagation", "private", sys.executable, "-c", program, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_file_system_below_a_read_only_directory(tmp_path: Path) -> None:
    """It cannot be written through, neither as a workspace nor as a mount; set-user-id and devices are off there too."""
    top = tmp_path.resolve() / "top"
    (top / "sub").mkdir(parents=True)
    (top / "home" / ".ssh").mkdir(parents=True)
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o777)
    found = run_in_a_namespace(PROGRAM, str(top))
    # As root the owner of a directory is mapped, which holds for one mount: what is below it is not there.
    assert found["seen"] == ("" if os.geteuid() == 0 else "below")
    assert not found["written"]
    assert found["control"] == "y\n", "the same file system can be written where it is given for that"
    assert "below" not in found["secret"]
    assert all({"nosuid", "nodev"} <= set(flags.split(",")) for flags in found["flags"])
    assert len(found["flags"]) >= 3
    assert sorted(str(path.relative_to(top)) for path in top.rglob("*")) == ["home", "home/.ssh", "sub"]
