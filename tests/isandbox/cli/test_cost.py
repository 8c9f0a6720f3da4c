import json
import subprocess
import sys

_SHOW = "import json, sys; import {}; print(json.dumps(sorted(sys.modules)))"


def _modules(name):
    done = subprocess.run([sys.executable, "-c", _SHOW.format(name)], capture_output=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


def test_command_line_imports_click_and_nothing_else():
    """`isandbox --help` loads what a bare click program loads, and this package."""
    ours = _modules("isandbox.cli") - _modules("click")
    assert {name for name in ours if name.startswith("isandbox")} == {"isandbox", "isandbox.cli"}
    assert not ours & {"asyncio", "subprocess", "socket", "psutil", "importlib.metadata"}
