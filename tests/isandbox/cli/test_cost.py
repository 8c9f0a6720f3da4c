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


def test_the_doctor_needs_no_terminal_of_unix():
    """Where there is no termios and no pwd, as on Windows, the doctor can be imported, and the checks still have answers."""
    code = """
import sys
sys.modules["termios"] = sys.modules["pwd"] = None
from isandbox.cli.doctor import CHECKS, doctor_command, read_host
view = read_host(None)
print(len([check(view) for check in CHECKS]) > 10, repr(view.user))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"True ''\n", b"")


def test_a_run_loads_no_other_command():
    """`isandbox run` imports its own options, and nothing of the tables, the doctor, the schemas or click's completion."""
    loaded = _modules("isandbox.cli.commands.run, isandbox.cli._run")
    own = {f"isandbox.cli.commands.{name}" for name in ("run", "_sandbox", "_words")}
    assert {name for name in loaded if name.startswith("isandbox.cli.commands.")} == own
    assert {name for name in loaded if name.startswith("isandbox.cli.life.")} <= {"isandbox.cli.life.durations"}
    others = ("isandbox.cli._layout", "isandbox.cli.doctor", "isandbox.cli.schemas", "click.shell_completion", "unicodedata")
    assert [name for name in loaded if name.startswith(others)] == []
