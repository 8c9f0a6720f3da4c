"""The helper in Python: where it is, whether it can run here, and in which points it is weaker than the native one."""

from __future__ import annotations

import os
import sys
from functools import cache

from isandbox_backends._shared.helper import HelperProgram, helper_missing
from isandbox_backends._shared.host_process import log

_MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "py_helper", "__main__.py")
# Without it an interpreter that is linked to a shared libpython may not start.
_LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
_COMPLETE = sys.platform == "linux"

WEAKNESSES = (
    "a command starts some milliseconds later; its cpu_time and max_rss include the interpreter that it was forked from",
    "memory and cpu_time are looked at through psutil, which takes longer: more can be overshot between two looks",
    "a command can trace the helper and forge its reports",
    "a command that forks into new sessions faster than psutil looks can outlive a time-out",
    *(
        ()
        if _COMPLETE
        else (
            "a process that forks twice between two looks (50 ms) can outlive a time-out, and the sandbox",
            "when the helper is killed, processes that it ran live on",
        )
    ),
)


def python_helper_missing() -> str | None:
    """Why the Python helper cannot run here; ``None`` when it can."""
    if os.name != "posix":
        return f"it needs Linux or macOS; this is {sys.platform}"
    if not sys.executable or getattr(sys, "frozen", False):
        return "without the native helper it needs a Python interpreter to run its own, and sys.executable names none"
    return None


def python_helper() -> HelperProgram:
    import psutil  # only where it is needed: importing the backend must work on every platform

    modules = os.path.dirname(os.path.dirname(os.path.abspath(psutil.__file__)))
    argv = (sys.executable, "-I", "-S", "-B", _MAIN, modules)
    return HelperProgram(sys.executable, argv, {name: os.environ[name] for name in _LOADER if name in os.environ})


@cache
def warn_once() -> None:
    """Say in the log that the native helper is not used, once in this process."""
    log.warning("the local backend runs with its Python helper, which is weaker: %s", helper_missing())
