"""`isandbox logs`: what a kept command has written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from isandbox.cli._output import outlets
from isandbox.cli._streams import STDERR, say
from isandbox.cli.life.edge import guarded
from isandbox.cli.life.ids import find_command, open_sandbox
from isandbox.cli.life.tail import LastLines
from isandbox.records import Offsets

if TYPE_CHECKING:
    from isandbox.records import ProcessInfo
    from isandbox.sync import IProcess

_STREAMS = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class LogsOptions:
    """Everything of one ``isandbox logs``. ``since`` in bytes and ``tail`` in lines of each stream; not both."""

    id: str
    number: int | None = None
    follow: bool = False
    since: Offsets | None = None
    tail: int | None = None
    raw: bool = False


def split_since(text: str) -> Offsets:
    """``N``, or ``N,M`` for stdout and stderr."""
    out, _, err = text.partition(",")
    if not out.isdecimal() or not (err or "0").isdecimal() or len(text) > 40:
        raise click.BadParameter(f"{text!r} is not a number of bytes, or two as in 4096,512", param_hint="--since")
    return Offsets(stdout=int(out), stderr=int(err or 0))


def logs_command(options: LogsOptions) -> int:
    """0; 125; 130 when a Ctrl-C ends the following. The command goes on whatever happens."""
    return guarded(lambda: _logs(options))


def _logs(options: LogsOptions) -> int:
    with open_sandbox(options.id) as sandbox:
        found = find_command(sandbox, options.number)
        asked = options.since or Offsets()
        since = Offsets(*(max(getattr(asked, name), getattr(found.first, name)) for name in _STREAMS))
        if options.tail is None:
            _say_what_is_gone(found, since)
        with sandbox.attach(found.id, since=since) as process:
            _copy(process, found, since, options)
    return 0


def _say_what_is_gone(found: ProcessInfo, since: Offsets) -> None:
    for name in _STREAMS:
        gone = getattr(found.first, name)
        if gone and getattr(since, name) == gone:
            say(f"isandbox: the first {gone} bytes of {name} are not kept any more", 0, STDERR)


def _copy(process: IProcess, found: ProcessInfo, since: Offsets, options: LogsOptions) -> None:
    """What comes, to the command's end or, per stream, to where it was when we looked. A chunk may lead past that."""
    into = outlets(raw=options.raw)
    until = found.written
    endless = options.follow or not found.running
    reached = {name: max(getattr(since, name), getattr(process.offsets, name)) for name in _STREAMS}
    cuts = {} if options.tail is None else {n: LastLines(options.tail, reached[n], getattr(until, n)) for n in _STREAMS}

    def enough() -> bool:
        return not endless and reached["stdout"] >= until.stdout and reached["stderr"] >= until.stderr

    if enough():
        return
    try:
        for name, chunk in process:
            into[name].write(cuts[name].feed(chunk) if cuts else chunk)
            reached[name] += len(chunk)
            if enough():
                return
    finally:  # whatever is said next must not be in the command's colours
        for stream, outlet in into.items():
            if cuts:
                outlet.write(cuts[stream].end())
            outlet.end()
