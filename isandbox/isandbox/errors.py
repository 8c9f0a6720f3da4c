"""Every error that isandbox raises on purpose.

Our exception hierarchy:

* SandboxError
  x ConfigurationError (also ValueError)        you asked for something that is not valid
  x UnsupportedError                            valid, but this backend cannot enforce or do it
  x BackendUnavailableError                     the backend cannot run here at all
  x SandboxNotFoundError (also LookupError)
  x SandboxClosedError                          you closed it
  x SandboxLostError                            the world did
  x SandboxBusyError
  x StateError                                  the state directory, or what is in it, cannot be used
  x PolicyDeniedError (also PermissionError)
  x TransferRefusedError (also ValueError)      an archive or a tree that is not taken, as a whole
  x ExecFailedError                             only from ``check``; carries the result
    + ExecTimeoutError (also TimeoutError)
    + ExecMemoryError
    + ExecCpuError
    + ExecOutputLimitError
    + ExecCancelledError
    + ExecKilledError

File verbs raise the standard library's errors (FileNotFoundError, PermissionError, ...) with the path in them. A command
that fails is a result, not an error, unless ``check`` asks for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from isandbox.records import ExecResult


class SandboxError(Exception):
    """Root of the tree.

    ``code`` is a stable word for programs; ``retryable`` says whether the same call may succeed later;
    ``outcome`` is ``"none"`` when nothing happened and ``"unknown"`` when the effect may have happened all the same.
    """

    code: ClassVar[str] = "sandbox_error"
    retryable: bool = False
    outcome: str = "none"


class ConfigurationError(SandboxError, ValueError):
    """An argument, option, file or variable is not valid. Raised before anything is started.

    You do not get it for a valid option that the chosen backend cannot honour: that is `UnsupportedError`.
    """

    code = "configuration"


class UnsupportedError(SandboxError):
    """The backend cannot enforce or do this, and refuses rather than pretend.

    ``option`` and ``backend`` name the two; the message ends with one thing to do instead.
    """

    code = "unsupported"

    def __init__(self, message: str, *, option: str = "", backend: str = "") -> None:
        super().__init__(message)
        self.option = option
        self.backend = backend

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


class BackendUnavailableError(SandboxError):
    """The backend cannot run on this machine: an extra is not installed, a kernel feature or a service is missing.

    The message names what is missing and the command that fixes it. There is never a silent step down to another backend.
    """

    code = "backend_unavailable"


class SandboxNotFoundError(SandboxError, LookupError):
    """No sandbox has this id, or it is not yours."""

    code = "not_found"


class SandboxClosedError(SandboxError):
    """The handle was used after ``close()``, ``detach()`` or ``os.fork()``: your own doing.

    You do not get it when the sandbox died by itself: that is `SandboxLostError`.
    """

    code = "closed"


class SandboxLostError(SandboxError):
    """The sandbox is gone and you did not close it: killed, crashed, or its connection broke.

    The effect of the call that raises it is unknown. It is never turned into a command's result.
    """

    code = "lost"
    outcome = "unknown"


class SandboxBusyError(SandboxError):
    """The sandbox cannot do this while it does something else."""

    code = "busy"
    retryable = True


class StateError(SandboxError):
    """The directory with this user's state cannot be used, or something in it is damaged, foreign or of a newer isandbox.

    Nothing in it has been changed. The message names the path and what to do. You do not get it for an owned sandbox, which
    needs no state.
    """

    code = "state"


class PolicyDeniedError(SandboxError, PermissionError):
    """The policy of this sandbox forbids it."""

    code = "policy_denied"


class TransferRefusedError(SandboxError, ValueError):
    """An archive or a tree is not taken: a member breaks a rule, or there is too much of it. Nothing of it is kept.

    ``member`` is its path in the tree, empty when no single one is to blame. ``rule`` is a word: ``path``, ``name``, ``depth``,
    ``duplicate``, ``link``, ``special``, ``members``, ``bytes``, ``ratio``, ``truncated``, ``malformed``. You do not get it for
    a file that cannot be read or written: that is the standard library's error.
    """

    code = "transfer_refused"

    def __init__(self, message: str, *, rule: str = "", member: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        self.member = member

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


class ExecFailedError(SandboxError):
    """A command did not succeed and ``check`` was asked for. ``result`` is the whole `ExecResult`."""

    code = "exec_failed"
    outcome = "unknown"

    def __init__(self, message: str, result: ExecResult) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


class ExecTimeoutError(ExecFailedError, TimeoutError):
    """The command ran into its time-out and was ended. Its output so far is in ``result``."""

    code = "exec_timeout"


class ExecMemoryError(ExecFailedError):
    """The command was ended because memory was over its quota."""

    code = "exec_oom"


class ExecCpuError(ExecFailedError):
    """The command was ended because it used up its CPU time."""

    code = "exec_cpu"


class ExecOutputLimitError(ExecFailedError):
    """The command was ended because it wrote more than ``Quotas.output`` bytes."""

    code = "exec_output"


class ExecCancelledError(ExecFailedError):
    """The command was ended because the call that ran it was cancelled or its handle was killed."""

    code = "exec_cancelled"


class ExecKilledError(ExecFailedError):
    """The command, or the process that watched over it, was killed from inside the sandbox or by an operator."""

    code = "exec_killed"


def _rebuild(cls: type[SandboxError], args: tuple[object, ...], state: dict[str, object]) -> SandboxError:
    error = cls.__new__(cls, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error
