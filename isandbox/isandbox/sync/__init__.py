"""isandbox, blocking: the same names as `isandbox`, without ``await``.

Handles are thread-safe. Ctrl-C ends the command that is waited for, then raises `KeyboardInterrupt`.
"""

from isandbox.sync.factory import create_sandbox, createSandbox
from isandbox.sync.lifecycle import connect, kill_sandbox, list_sandboxes, reap
from isandbox.sync.oneshot import run
from isandbox.sync.process import IProcess
from isandbox.sync.sandbox import ISandbox

__all__ = [
    "IProcess",
    "ISandbox",
    "connect",
    "createSandbox",
    "create_sandbox",
    "kill_sandbox",
    "list_sandboxes",
    "reap",
    "run",
]
