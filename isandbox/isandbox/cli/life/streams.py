"""A command without a terminal of the user's: its output goes where ours goes, our stdin to it, signals are passed on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from isandbox.cli._output import outlets, stream
from isandbox.cli._signals import Signals
from isandbox.cli._streams import feed_stdin, terminal_restored

if TYPE_CHECKING:
    from isandbox.records import ExecResult
    from isandbox.sync import IProcess


def follow(process: IProcess, signals: Signals, *, interactive: bool, show: bool, raw: bool) -> ExecResult:
    """Until the command has ended. Without ``interactive`` its input is left as it is; without ``show`` nothing is written."""
    signals.attach(process)
    if interactive:
        feed_stdin(process)
    if show:
        stream(process, outlets(raw=raw))
    return process.wait()


def watch(process: IProcess) -> ExecResult:
    """As `follow`, of a kept command that others may use too: SIGTERM and SIGHUP are ours, the end of our stdin is not its."""
    with terminal_restored(), Signals(only=(signal.SIGINT,)) as signals:
        signals.attach(process)
        feed_stdin(process, end=False)
        stream(process, outlets())
        return process.wait()
