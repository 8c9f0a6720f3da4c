"""isandbox: run code that nobody has reviewed, and get an honest answer about what happened.

Everything public is loaded when it is first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isandbox._registry import backend_names as backend_names
    from isandbox.backend import Backend as Backend
    from isandbox.backend import CreateRequest as CreateRequest
    from isandbox.command import ProcessSpec as ProcessSpec
    from isandbox.errors import BackendUnavailableError as BackendUnavailableError
    from isandbox.errors import ConfigurationError as ConfigurationError
    from isandbox.errors import ExecCancelledError as ExecCancelledError
    from isandbox.errors import ExecCpuError as ExecCpuError
    from isandbox.errors import ExecFailedError as ExecFailedError
    from isandbox.errors import ExecKilledError as ExecKilledError
    from isandbox.errors import ExecMemoryError as ExecMemoryError
    from isandbox.errors import ExecOutputLimitError as ExecOutputLimitError
    from isandbox.errors import ExecTimeoutError as ExecTimeoutError
    from isandbox.errors import PolicyDeniedError as PolicyDeniedError
    from isandbox.errors import SandboxBusyError as SandboxBusyError
    from isandbox.errors import SandboxClosedError as SandboxClosedError
    from isandbox.errors import SandboxError as SandboxError
    from isandbox.errors import SandboxLostError as SandboxLostError
    from isandbox.errors import SandboxNotFoundError as SandboxNotFoundError
    from isandbox.errors import StateError as StateError
    from isandbox.errors import TransferRefusedError as TransferRefusedError
    from isandbox.errors import UnsupportedError as UnsupportedError
    from isandbox.events import Event as Event
    from isandbox.factory import Creation as Creation
    from isandbox.factory import create_sandbox as create_sandbox
    from isandbox.factory import createSandbox as createSandbox
    from isandbox.lifecycle import Connection as Connection
    from isandbox.lifecycle import connect as connect
    from isandbox.lifecycle import kill_sandbox as kill_sandbox
    from isandbox.lifecycle import list_sandboxes as list_sandboxes
    from isandbox.lifecycle import reap as reap
    from isandbox.oneshot import run as run
    from isandbox.policy import Capabilities as Capabilities
    from isandbox.policy import Enforcement as Enforcement
    from isandbox.policy import Mount as Mount
    from isandbox.policy import Policy as Policy
    from isandbox.policy import Quotas as Quotas
    from isandbox.policy import Workspace as Workspace
    from isandbox.process import IProcess as IProcess
    from isandbox.records import ExecResult as ExecResult
    from isandbox.records import FileInfo as FileInfo
    from isandbox.records import Metrics as Metrics
    from isandbox.records import Offsets as Offsets
    from isandbox.records import ProcessInfo as ProcessInfo
    from isandbox.records import ReapReport as ReapReport
    from isandbox.records import RunResult as RunResult
    from isandbox.records import SandboxInfo as SandboxInfo
    from isandbox.records import SandboxSummary as SandboxSummary
    from isandbox.records import TerminalSize as TerminalSize
    from isandbox.records import Transfer as Transfer
    from isandbox.sandbox import ISandbox as ISandbox

_HOME = {
    "backend_names": "_registry",
    "Backend": "backend",
    "CreateRequest": "backend",
    "ProcessSpec": "command",
    "Event": "events",
    "Creation": "factory",
    "create_sandbox": "factory",
    "createSandbox": "factory",
    "Connection": "lifecycle",
    "connect": "lifecycle",
    "kill_sandbox": "lifecycle",
    "list_sandboxes": "lifecycle",
    "reap": "lifecycle",
    "run": "oneshot",
    "Capabilities": "policy",
    "Enforcement": "policy",
    "Mount": "policy",
    "Policy": "policy",
    "Quotas": "policy",
    "Workspace": "policy",
    "IProcess": "process",
    "ExecResult": "records",
    "FileInfo": "records",
    "Metrics": "records",
    "Offsets": "records",
    "ProcessInfo": "records",
    "ReapReport": "records",
    "RunResult": "records",
    "SandboxInfo": "records",
    "SandboxSummary": "records",
    "TerminalSize": "records",
    "Transfer": "records",
    "ISandbox": "sandbox",
}

__all__ = [
    "Backend",
    "BackendUnavailableError",
    "Capabilities",
    "ConfigurationError",
    "Connection",
    "CreateRequest",
    "Creation",
    "Enforcement",
    "Event",
    "ExecCancelledError",
    "ExecCpuError",
    "ExecFailedError",
    "ExecKilledError",
    "ExecMemoryError",
    "ExecOutputLimitError",
    "ExecResult",
    "ExecTimeoutError",
    "FileInfo",
    "IProcess",
    "ISandbox",
    "Metrics",
    "Mount",
    "Offsets",
    "Policy",
    "PolicyDeniedError",
    "ProcessInfo",
    "ProcessSpec",
    "Quotas",
    "ReapReport",
    "RunResult",
    "SandboxBusyError",
    "SandboxClosedError",
    "SandboxError",
    "SandboxInfo",
    "SandboxLostError",
    "SandboxNotFoundError",
    "SandboxSummary",
    "StateError",
    "TerminalSize",
    "Transfer",
    "TransferRefusedError",
    "UnsupportedError",
    "Workspace",
    "backend_names",
    "connect",
    "createSandbox",
    "create_sandbox",
    "kill_sandbox",
    "list_sandboxes",
    "reap",
    "run",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    home = _HOME.get(name) or ("errors" if name in __all__ else None)
    if home is None:
        raise AttributeError(f"module 'isandbox' has no attribute {name!r}")
    value = getattr(import_module(f"isandbox.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
