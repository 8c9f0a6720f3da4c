"""`isandbox run`: one sandbox, one command, its exit code."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from isandbox.cli._output import outlets, say_failure, say_object, stream
from isandbox.cli._prepare import Prepared, prepare
from isandbox.cli._report import end_code, end_lines, result_object
from isandbox.cli._signals import Signals
from isandbox.cli._streams import (
    FAILED,
    OUTPUT_CLOSED,
    STDERR,
    OutputClosedError,
    feed_stdin,
    hold_standard_descriptors,
    terminal_restored,
    write_all,
)
from isandbox.command import MAX_OUTPUT_DEFAULT
from isandbox.errors import SandboxError

if TYPE_CHECKING:
    from isandbox.cli._options import RunOptions
    from isandbox.records import ExecResult


def run_command(options: RunOptions) -> int:
    """The exit code. What goes wrong is one line on stderr, or one object on stdout with ``--json``; never a traceback."""
    hold_standard_descriptors()
    try:
        try:
            with terminal_restored(), Signals() as signals:
                prepared = prepare(options)
                result = _in_sandbox(prepared, options, signals)
        except (SandboxError, OSError) as error:
            return say_failure(error, as_json=options.json)
        if options.json:
            return say_object(result_object(result, prepared), end_code(result))
        for line in end_lines(result, prepared):
            write_all(STDERR, line)
        return end_code(result)
    except OutputClosedError:
        return OUTPUT_CLOSED
    except OSError as error:  # the disk is full, or the terminal has hung up: then nobody hears this either
        with contextlib.suppress(OSError, OutputClosedError):
            say_failure(error, as_json=False)
        return FAILED


def _in_sandbox(prepared: Prepared, options: RunOptions, signals: Signals) -> ExecResult:
    from isandbox.sync import create_sandbox

    with create_sandbox(prepared.type, **prepared.sandbox) as sandbox:
        kept = MAX_OUTPUT_DEFAULT if options.json else 0
        process = sandbox.start(prepared.argv, timeout=options.timeout, max_output=kept)
        signals.attach(process)
        with process:
            feed_stdin(process)
            if not options.json:
                stream(process, outlets(raw=options.raw))
            return process.wait()
