"""The command's own process, from fork to exec."""

from __future__ import annotations

import errno
import os
import resource
from typing import NoReturn

from . import files
from .plan import Plan
from .system import close_all_but, default_signals, die_with_parent
from .wire import PAIR, Pipes, Stage, Start

_PATH = b"/usr/local/bin:/usr/bin:/bin"


class _FailedError(Exception):
    def __init__(self, stage: Stage, number: int) -> None:
        self.stage, self.number = stage, number
        super().__init__(stage, number)


def run_program(start: Start, plan: Plan, pipes: Pipes, failures: int) -> NoReturn:
    """Become the command, or do its file operation. A failure is written to ``failures`` as stage and errno."""
    try:
        _become(start, plan, pipes, failures)
        os._exit(0)
    except _FailedError as failed:
        stage, number = failed.stage, failed.number
    except BaseException:  # whatever else it is: this process must not go on as a second helper
        stage, number = Stage.IDENTITY, errno.EIO
    os.write(failures, PAIR.pack(stage, number))
    if stage is Stage.FILE:
        os._exit(1)
    os._exit(126 if stage is Stage.EXEC and number not in {errno.ENOENT, errno.ENOTDIR} else 127)


def _become(start: Start, plan: Plan, pipes: Pipes, failures: int) -> None:
    stage = Stage.IDENTITY
    try:
        os.setsid()
        die_with_parent()
        stage = Stage.STDIO
        _arrange_descriptors(pipes, failures)
        stage = Stage.IDENTITY
        if plan.cpus:
            os.sched_setaffinity(0, plan.cpus)
        stage = Stage.CWD
        os.chdir(start.cwd)
        if start.operation:
            stage = Stage.FILE
            _file_operation(start, plan)
            return
        stage = Stage.IDENTITY
        default_signals()
        # Last, as this interpreter has to live with them too: there may be no memory to be had any more.
        env = dict(entry.partition(b"=")[::2] for entry in start.env)
        _set_limits(plan.limits)
        stage = Stage.EXEC
        _execute(start.argv, env)
    except OSError as error:
        raise _FailedError(stage, error.errno or errno.EIO) from error
    except MemoryError as error:
        raise _FailedError(stage, errno.ENOMEM) from error


def _arrange_descriptors(pipes: Pipes, failures: int) -> None:
    """0, 1, 2 and for a script 3. Numbers below 4 are taken in this process, so no source is among the targets."""
    stdin = pipes.stdin if pipes.stdin >= 0 else os.open("/dev/null", os.O_RDONLY)
    os.dup2(stdin, 0)
    os.dup2(pipes.out, 1)
    os.dup2(pipes.err if pipes.err >= 0 else pipes.out, 2)
    keep = {0, 1, 2, failures}
    if pipes.script >= 0:
        os.dup2(pipes.script, 3)
        keep.add(3)
    close_all_but(keep)


def _set_limits(limits: list[tuple[int, tuple[int, int]]]) -> None:
    for number, (soft, hard) in limits:
        # Never above what the caller itself may have: that would be refused.
        most = resource.getrlimit(number)[1]
        resource.setrlimit(number, (_lower(soft, most), _lower(hard, most)))


def _lower(one: int, other: int) -> int:
    """-1 is "no limit"."""
    return max(one, other) if min(one, other) < 0 else min(one, other)


def _file_operation(start: Start, plan: Plan) -> None:
    # Our own code with bounded buffers: of the limits, only the size of files concerns it.
    _set_limits([limit for limit in plan.limits if limit[0] == resource.RLIMIT_FSIZE])
    files.operate(start.operation, start.argv)


def _execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """As execvp does: a name without a slash is looked for in the command's PATH; EACCES is remembered, others go on."""
    name = argv[0]
    if b"/" in name:
        os.execve(name, argv, env)  # noqa: S606 - that is its purpose
    number = errno.ENOENT
    for place in env.get(b"PATH", _PATH).split(b":") if name else ():
        try:
            os.execve((place or b".") + b"/" + name, argv, env)  # noqa: S606
        except PermissionError:
            number = errno.EACCES
        except (FileNotFoundError, NotADirectoryError):
            continue
    raise OSError(number, os.strerror(number))
