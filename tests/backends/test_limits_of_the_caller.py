"""Resource limits of whoever runs isandbox: what is lower than a quota holds, and is no reason not to start."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the native helper is for Linux")

# In a process of its own, whose hard limits cannot be raised again.
PROGRAM = """
import json, resource, sys
from isandbox import Quotas
from isandbox.sync import create_sandbox

for which, limit in json.loads(sys.argv[2]):
    resource.setrlimit(which, (limit, limit))
with create_sandbox(**json.loads(sys.argv[1]), quotas=Quotas(file_size=1 << 30)) as sandbox:
    sandbox.files.write("f", "text")
    program = "import resource; print([resource.getrlimit(w) for w in (1, 6)])"
    result = sandbox.exec(["python3", "-c", program], check=True)
print(result.stdout)
"""
FSIZE, NPROC = 1, 6


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        pytest.param({"type": "seccomp"}, [(FSIZE, 1 << 20), (NPROC, 200)], marks=pytest.mark.native),
        ({"type": "local", "helper": "native"}, [(FSIZE, 1 << 20)]),
        ({"type": "local", "helper": "python"}, [(FSIZE, 1 << 20)]),
    ],
)
def test_a_lower_limit_of_the_caller_holds(options, limits):
    """A default or a quota above the caller's hard limit is lowered to it; commands and file verbs work."""
    arguments = [sys.executable, "-c", PROGRAM, json.dumps(options), json.dumps(limits)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.replace("(", "[").replace(")", "]"))
    assert [found[(FSIZE, NPROC).index(which)] for which, _ in limits] == [[limit, limit] for _, limit in limits]
