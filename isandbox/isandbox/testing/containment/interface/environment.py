"""Environments: names and values as they were given, and variables that loaders and interpreters obey."""

from __future__ import annotations

import json
from pathlib import Path

from isandbox.errors import ConfigurationError
from isandbox.policy import Workspace
from isandbox.sandbox import ISandbox
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.interface.verbs import said, typed
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Names that a program could read back as another, or as none. CPython's own check takes the empty one, the newline and blanks.
_NO_NAMES = ["", "A=B", "A\0B", "A\nB", " PADDED", "PADDED ", "A\ud800", "=", "\n"]
# Names that are odd, and whole to every program.
_ODD_NAMES = ["lower", "_", "A.B", "A-B", "A B", "1ST", "\xe9", "BASH_FUNC_x%%", "X" * 1000, "A\x1b[2J", "\udcff\udcfe"]
_VALUES = [
    "",
    "two\nlines",
    "\n",
    "  blanks  ",
    "'\"`$(x)\\",
    "a=b",
    "()  { :;}; echo shellshock",
    "\x1b]0;x\x07",
    "\udcff",
    "x" * 100_000,
]
_DUMP = "import json, os; print(json.dumps({k.hex(): v.hex() for k, v in os.environb.items()}))"


@probe("F12", "Variables arrive as they were given, or are refused", claim="interface")
async def exact_environment(arena: Arena) -> Verdict:
    """A name that could be read back as another is `ConfigurationError`, for a command and for a sandbox; every other name and
    value arrives byte for byte, also ten thousand of them.
    """
    sandbox, checks = await arena.sandbox(), Checks()
    checks.control("a plain one arrives", (await _seen(sandbox, {"PLAIN": "x"})).get(_hex("PLAIN")) == _hex("x"))
    for name in _NO_NAMES:
        answer = await said(arena, sandbox.exec(["true"], env={name: "x"}, timeout=20.0))
        checks.hold(f"{name!r} is refused", answer == "configuration", answer)
        answer = await said(arena, _created(arena, {name: "x"}))
        checks.hold(f"{name!r} is refused when it is made", answer == "configuration", answer)
    answer = await said(arena, sandbox.exec(["true"], env={"A": "x\0y"}, timeout=20.0))
    checks.hold("a NUL in a value is refused", answer == "configuration", answer)
    given = {f"V{number}": value for number, value in enumerate(_VALUES)}
    for name in _ODD_NAMES:
        try:
            seen = await _seen(sandbox, {name: "x"})
        except ConfigurationError:
            continue
        checks.hold(f"{name[:20]!r} arrives or is refused", seen.get(_hex(name)) == _hex("x"), name[:20])
    seen = await _seen(sandbox, given)
    for name, value in given.items():
        checks.hold(f"{value[:20]!r} arrives", seen.get(_hex(name)) == _hex(value))
    many = {f"MANY_{number}": f"{number}\n" for number in range(10_000)}
    seen = await _seen(sandbox, many)
    checks.hold("many arrive", all(seen.get(_hex(name)) == _hex(value) for name, value in many.items()), len(seen))
    return checks.verdict("BLOCKED", "checked names, no environment text")


async def _created(arena: Arena, env: dict[str, str]) -> str:
    async with arena.target.create(env=env):
        return "made"


async def _seen(sandbox: ISandbox, env: dict[str, str]) -> dict[str, str]:
    result = await sandbox.exec(["python3", "-I", "-c", _DUMP], env=env, timeout=30.0, max_output=4 << 20)
    found = json.loads(result.stdout) if result.ok else {}
    return {str(name): str(value) for name, value in found.items()}


def _hex(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").hex()


_TRACE = "import os, sys\nwith open({log!r}, 'a') as log:\n    log.write('python %d %s\\n' % (os.getpid(), sys.argv))\n"
_SHELL_TRACE = '#!/bin/sh\necho "$0 $*" >> {log}\n'


def _poisoned(top: Path, inside: str) -> dict[str, str]:
    """Files at ``top`` that leave a trace when somebody loads them, and the variables that lead there. ``inside``: the same
    directory as the sandbox sees it.
    """
    log = f"{inside}/trace"
    for name in ("sitecustomize.py", "usercustomize.py", "startup.py"):
        (top / name).write_text(_TRACE.format(log=log))
    for name in ("sh", "cat", "mkdir", "python3", "env", "setpriv", "true", "tar", "bwrap", "docker", "rc"):
        (top / name).write_text(_SHELL_TRACE.format(log=log))
        (top / name).chmod(0o755)
    return {
        "PATH": f"{inside}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": inside,
        "PYTHONSTARTUP": f"{inside}/startup.py",
        "PYTHONUSERBASE": inside,
        "BASH_ENV": f"{inside}/rc",
        "ENV": f"{inside}/rc",
        "LD_PRELOAD": f"{inside}/no-such-preload.so",
        "LD_AUDIT": f"{inside}/no-such-audit.so",
        "LD_LIBRARY_PATH": inside,
        "GCONV_PATH": inside,
        "PS4": f"$(echo ps4 >> {log})",
        "PYTHONWARNINGS": "error",
        "MALLOC_CHECK_": "7",
        "NODE_OPTIONS": f"--require {inside}/rc",
        "GIT_EXEC_PATH": inside,
    }


@probe("F13", "Loader and interpreter variables reach the user's command only", claim="interface")
async def loaders(arena: Arena) -> Verdict:
    """With such variables for the whole sandbox, no verb but a command of the user's loads what they name."""
    host = arena.directory()
    host.chmod(0o755)
    first = await arena.sandbox(workspace=Workspace(str(host)))
    env = _poisoned(host, first.info.workspace)
    sandbox, checks, trace = await arena.sandbox(workspace=Workspace(str(host)), env=env), Checks(), host / "trace"
    source = arena.directory() / "sent"
    source.write_text("sent")
    calls = [
        sandbox.write("written", b"x"),
        sandbox.read("written"),
        sandbox.stat("written"),
        sandbox.list_dir("."),
        sandbox.make_dir("made", parents=True),
        sandbox.rename("written", "made/renamed"),
        sandbox.files.upload(source, "made/sent"),
        sandbox.files.download("made", arena.directory() / "got"),
        sandbox.remove("made", recursive=True),
        sandbox.metrics(),
        sandbox.exec(["/bin/echo", "a command of its own"], timeout=20.0),
        sandbox.exec(["/no/such/program"], timeout=20.0),
    ]
    for number, call in enumerate(calls):
        answer = await said(arena, call)
        checks.hold(f"call {number}", typed(answer) and answer == "ok", answer)
    checks.hold("nothing was loaded", not trace.exists(), trace.read_text()[:200] if trace.exists() else "")
    ours = await sandbox.exec(["/usr/bin/env", "cat", "nothing"], timeout=20.0)
    python = await sandbox.exec(["/usr/bin/env", "-u", "PATH", "/usr/bin/python3", "-c", "0"], timeout=20.0)
    checks.control("the user's own command obeys them", trace.exists(), (ours.stderr + python.stderr)[-200:])
    checks.control("and the loader", "no-such-preload" in ours.stderr, ours.stderr[-200:])
    return checks.verdict("CONTAINED", "no program but the command has this environment")
