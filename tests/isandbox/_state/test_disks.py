"""Disks that are full, limited or read-only: a named error, and what was there is as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FILL = """
import secrets, sys
from isandbox import StateError
from isandbox._state.directory import StateDirectory
from isandbox._state.register import Register

state = StateDirectory.make(sys.argv[1])
register = Register(state)
begun = []
register.begin("local-" + "0" * 32)
if len(sys.argv) > 2:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
for _ in range(5000):
    name = f"seccomp-{secrets.token_hex(16)}"
    try:
        register.begin(name, labels={"some": "text" * 50})
    except StateError as error:
        assert error.retryable, error
        assert "no room left" in str(error), error
        assert state.path in str(error), error
        break
    begun.append(name)
else:
    sys.exit("it was never full")
found = register.list()
assert not found.damaged
assert {entry.id for entry in found.entries} == {*begun, "local-" + "0" * 32}, "what was begun before is there, and no more"
assert begun, "not one fitted"
print("held")
"""

PLACES = """
import os, secrets, sys
from isandbox import StateError
from isandbox._state.directory import StateDirectory
from isandbox._state.places import Places

places = Places(StateDirectory.make(sys.argv[1]))
for made in range(100):
    try:
        with places.make() as place:
            place.publish(f"seccomp-{secrets.token_hex(16)}")
    except StateError as error:
        assert error.retryable and "no room left" in str(error), error
        break
assert len(places.ids()) == made > 0
assert len(os.listdir(places.path)) == made, "something was left half-made"
print("held")
"""

READ_ONLY = """
import sys
from isandbox import StateError
from isandbox._state.directory import StateDirectory

for operation in (StateDirectory.open, StateDirectory.make):
    for path in (sys.argv[1], sys.argv[1] + "/state"):
        try:
            found = operation(path)
        except StateError as error:
            assert "read-only" in str(error) and "ISANDBOX_STATE_DIR" in str(error), error
        else:
            assert found is None and operation == StateDirectory.open and path.endswith("/state"), path
print("held")
"""


def inside(mount: str, program: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a program with a mount of its own, in namespaces that end with it."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = f'{mount} && exec "$2" -c "$3" "$1"'
    command = ["unshare", *rights, "--mount", "sh", "-ec", script, "sh", str(place), sys.executable, program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.native
@pytest.mark.parametrize(
    ("mount", "program"),
    [
        pytest.param('mount -t tmpfs -o size=96k,mode=0700 none "$1"', FILL, id="no blocks for the register"),
        pytest.param('mount -t tmpfs -o nr_inodes=20,mode=0700 none "$1"', PLACES, id="no inodes for directories"),
        pytest.param('mount -t tmpfs -o ro,mode=0700 none "$1"', READ_ONLY, id="read-only"),
    ],
)
def test_a_small_or_read_only_disk(tmp_path: Path, mount: str, program: str) -> None:
    """The error says which; what was registered before is still there, and nothing half-made is left."""
    done = inside(mount, program, tmp_path)
    assert (done.stdout, done.stderr) == ("held\n", "")


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    """RLIMIT_FSIZE, as a shell or a service sets it: the same, and no death by SIGXFSZ."""
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path / "state"), "65536"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("held\n", "")
