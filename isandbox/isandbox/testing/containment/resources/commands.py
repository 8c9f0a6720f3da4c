"""Commands that do not want to end, and commands that are too large."""

from __future__ import annotations

import secrets

from isandbox.errors import SandboxError
from isandbox.testing.containment.arena import Arena, Box
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.judge import shown
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.resources.quota import MIB, alive

_DEAF = (
    "trap '' TERM INT HUP QUIT USR1 USR2 ALRM PIPE TSTP; echo deaf; i=0; while [ $i -lt 40 ]; do sleep 0.5; i=$((i+1)); done"
)
_NESTED = f'setsid sh -c "{_DEAF.replace("$", chr(92) + "$")}" & {_DEAF}'
# The program has the marker in its own command line, so only others count.
_LEFT = """
def marked():
    names = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    return sum(marker in content("/proc/%s/cmdline" % name) for name in names)
own = subprocess.Popen(
    [sys.executable, "-I", "-c", "import time; print('up', flush=True); time.sleep(10)", marker], stdout=subprocess.PIPE
)
own.stdout.readline()  # its command line is there once it runs
controls["one of its own is seen"] = "ok" if marked() else "not seen"
own.kill(); own.wait(); own.stdout.close()
out["left"] = marked()
"""


@probe("C15", "A time-out ends what does not want to end", claim="interface")
async def deaf(arena: Arena) -> Verdict:
    """Commands that ignore every signal end with fault ``timeout`` and what they wrote; a quick death is no time-out."""
    box, checks = await arena.box(), Checks()
    quick = await box.exec(["sh", "-c", "kill -TERM $$"], timeout=20.0)
    checks.control("a quick death is no time-out", (quick.exit_code, quick.fault) == (143, None), quick)
    marker = secrets.token_hex(8)
    for script, timeout in ((_DEAF, 0.05), (_DEAF, 0.4), (_NESTED, 0.4)):
        result = await box.exec(["sh", "-c", f": {marker}; {script}"], timeout=timeout)
        arena.saw(result)
        checks.hold(f"ended after {timeout} s", result.fault == "timeout", f"exit {result.exit_code}, fault {result.fault}")
        if timeout > 0.1:
            checks.hold("with its output so far", result.stdout.startswith("deaf\n"), result.stdout[:100])
    answers, controls = await arena.attack(_LEFT, marker=marker)
    checks.control("others are seen", set(controls.values()) == {"ok"}, controls)
    checks.hold("nothing of it is left", answers["left"] == "0", answers["left"])
    checks.hold("the sandbox goes on", await alive(arena, box))
    return checks.verdict("CONTAINED", "ended by the sandbox")


@probe("C16", "A command that is too large is refused, never cut", claim="interface")
async def too_large(arena: Arena) -> Verdict:
    """The largest arguments arrive whole; larger ones, and an environment or a script past its bound, are typed errors."""
    box, checks = await arena.box(), Checks()
    size = "import sys, os; print(len(sys.argv[1]), len(os.environ.get('LARGE', '')), len(os.environ))"
    largest = "x" * (128 * 1024 - 1)
    fits = await box.exec(["python3", "-I", "-c", size, largest], timeout=30.0)
    checks.control("an argument of 128 KiB less one", fits.stdout.split()[:1] == [str(len(largest))], fits)
    many = {f"V{number}": "x" * 40 for number in range(10_000)}
    found = await _answer(arena, box, ["python3", "-I", "-c", size, "x"], env=many)
    checks.hold("10,000 variables", found.endswith("ran") or found == "refused", found)
    for what, command in (
        ("an argument of 200 KiB", ["true", "x" * (200 << 10)]),
        ("3 MiB of arguments", ["true", *["x" * 65_536] * 48]),
        ("a script of 2 MiB", "true " + "x" * (2 * MIB)),
    ):
        checks.hold(what, (found := await _answer(arena, box, command)) == "refused", found)
    found = await _answer(arena, box, ["true"], env={"LARGE": "x" * (200 << 10)})
    checks.hold("a variable of 200 KiB", found == "refused", found)
    checks.hold("the sandbox goes on", await alive(arena, box))
    return checks.verdict("BLOCKED", "checked before it is sent")


async def _answer(arena: Arena, box: Box, command: object, **options: object) -> str:
    """``refused`` for a typed error or E2BIG, else what came of it."""
    try:
        result = await box.exec(command, timeout=30.0, **options)
    except (SandboxError, ValueError) as error:
        text = str(error)
        arena.saw(text.encode())
        return "refused" if len(text) < 1000 else "an error that holds all of it"
    arena.saw(result)
    if result.exit_code == 126 and result.start_error:
        return "refused"
    return shown(f"exit {result.exit_code}, ran" if result.ok else f"exit {result.exit_code}")
