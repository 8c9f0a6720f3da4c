"""`isandbox kill`: end sandboxes, or signal a kept command of one."""

from __future__ import annotations

import signal as _signal
from collections.abc import Sequence
from typing import Any

import click

from isandbox.cli._output import failure_line, say_object
from isandbox.cli._report import error_object
from isandbox.cli._streams import FAILED, STDERR, say
from isandbox.cli.life.edge import guarded
from isandbox.cli.life.ids import by_id, find_command, open_sandbox
from isandbox.errors import SandboxError

_LARGEST = 64  # of Linux: SIGRTMAX


def signal_number(text: str) -> int:
    """``TERM``, ``SIGTERM`` or ``15``."""
    if text.isdecimal() and len(text) < 4 and 1 <= int(text) <= _LARGEST:
        return int(text)
    name = text.upper()
    try:
        return int(_signal.Signals[name if name.startswith("SIG") else f"SIG{name}"])
    except KeyError as error:
        raise click.BadParameter(f"{text!r} is no signal; it has a name such as TERM or a number up to {_LARGEST}") from error


def kill_command(ids: Sequence[str], *, as_json: bool) -> int:
    """End each; 0 when none of them is there any more, else 125, and 141 when nobody reads their ids. One that cannot be ended, or
    whose id cannot be printed, does not keep the others.
    """
    return guarded(lambda: _end(ids, as_json=as_json), as_json=as_json)


def _end(ids: Sequence[str], *, as_json: bool) -> int:
    from isandbox.sync import kill_sandbox

    ended: list[dict[str, Any]] = []
    code = 0
    for text in ids:
        try:
            whole, was_there = by_id(kill_sandbox, text)
        except (SandboxError, OSError) as error:
            code = FAILED
            if as_json:
                ended.append({"id": text, **error_object(error)})
            else:
                say(failure_line(error), code, STDERR)
            continue
        if as_json:
            ended.append({"id": whole, "killed": was_there})
        elif was_there:
            code = say(whole, code)
        else:
            say(f"isandbox: {whole} had ended already", 0, STDERR)
    return say_object({"sandboxes": ended}, code) if as_json else code


def signal_command(id: str, number: int, command: int, *, as_json: bool) -> int:
    """Signal one kept command. 0 also when it has ended by now; 125 for one that there never was."""

    def work() -> int:
        with open_sandbox(id) as sandbox:
            found = find_command(sandbox, command)
            if found.running:
                with sandbox.attach(command, since=found.written) as process:
                    process.signal(number)
            return say_object({"id": sandbox.info.id, "command": command, "signalled": found.running}) if as_json else 0

    return guarded(work, as_json=as_json)
