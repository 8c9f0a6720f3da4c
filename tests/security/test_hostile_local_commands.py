"""The same against `local`, which promises no isolation, and still an answer, and that what it can find is ended."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from isandbox import ExecResult, SandboxLostError

pytestmark = [pytest.mark.native, pytest.mark.parametrize("interface", ["async", "blocking"])]

# The only processes that are ever signalled are the two above this one that bear the helper's names.
ATTACK = """
import os, signal, subprocess, sys, time
def stat(pid):
    name, _, rest = open(f"/proc/{pid}/stat").read().partition("(")[2].rpartition(")")
    return name, int(rest.split()[1])
keeper = os.getppid()
name, helper = stat(keeper)
assert name == "isandbox-keeper", name
assert stat(helper)[0] == "isandbox-helper", stat(helper)
children = [subprocess.Popen(["sh", "-c", "sleep 600; :", WORD], start_new_session=new) for new in (False, True)]
ATTACK
time.sleep(1)
sys.exit(7)
"""

KILLED, GOES_ON, LOST = "killed", "goes on", "lost"
ATTACKS = {
    "kill the keeper": ("os.kill(keeper, 9)", KILLED),
    "stop the keeper": ("os.kill(keeper, 19)", GOES_ON),
    "signal the keeper": ("[os.kill(keeper, n) for n in (1, 3, 11, 15, 17)]", GOES_ON),
    "signal the helper": ("[os.kill(helper, n) for n in (1, 3, 11, 15, 17)]", GOES_ON),
    "be traced by the keeper": (
        "import ctypes; ctypes.CDLL(None).ptrace(0, 0, None, None); signal.signal(10, print); os.kill(os.getpid(), 10)",
        GOES_ON,
    ),
    "kill the helper": ("os.kill(helper, 9); time.sleep(20)", LOST),
    "stop the helper": ("os.kill(helper, 19); time.sleep(60)", LOST),
    "stop the helper, kill the keeper": ("os.kill(helper, 19); os.kill(keeper, 9); time.sleep(60)", LOST),
}


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_the_helper_is_attacked(interface: str, hostile: Any, sandbox_tmp: Any, name: str) -> None:
    """The call returns, by its time-out and five seconds at the latest, with the truth; nothing that was started lives on."""
    attack, wanted = ATTACKS[name]
    word = f"isandbox-test-{secrets.token_hex(8)}"
    with hostile.target(interface, "local", helper="native") as box:
        program = ATTACK.replace("WORD", repr(word)).replace("ATTACK\n", attack + "\n")
        result = box.exec(["python3", "-c", program], timeout=2)
        if wanted == LOST:
            assert isinstance(result, SandboxLostError)
            assert not box.usable()
        else:
            assert isinstance(result, ExecResult)
            expected = (137, "killed") if wanted == KILLED else (7, None)
            assert (result.exit_code, result.fault) == expected, result.stderr
            assert box.usable()
            if wanted == KILLED:
                assert hostile.soon_empty(lambda: hostile.marked(word)) == []
    assert hostile.soon_empty(lambda: hostile.marked(word)) == []
