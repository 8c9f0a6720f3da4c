"""`isandbox exec`: one command in a sandbox that is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isandbox.cli._host import terminal_type
from isandbox.cli._output import say_object
from isandbox.cli._report import Asked, end_code, end_lines, result_object
from isandbox.cli._signals import Signals
from isandbox.cli._streams import STDERR, STDIN, say, terminal_restored, write_all
from isandbox.cli.life.edge import guarded
from isandbox.cli.life.ids import open_sandbox
from isandbox.cli.life.keys import DetachKeys
from isandbox.cli.life.session import Session
from isandbox.cli.life.streams import follow
from isandbox.cli.life.terminal import is_terminal, terminal_size
from isandbox.command import MAX_OUTPUT_DEFAULT
from isandbox.errors import ConfigurationError

if TYPE_CHECKING:
    from isandbox.records import ExecResult, TerminalSize
    from isandbox.sync import IProcess, ISandbox


@dataclass(frozen=True, slots=True)
class ExecOptions:
    """Everything of one ``isandbox exec``."""

    id: str
    argv: tuple[str, ...]
    interactive: bool = False
    terminal: bool = False
    background: bool = False
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float | None = None
    json: bool = False
    raw: bool = False


def exec_command(options: ExecOptions) -> int:
    """The exit code: the command's, 124 to 127, 141, or 0 for one that was started in the background."""
    return guarded(lambda: _execute(options), as_json=options.json)


def _execute(options: ExecOptions) -> int:
    if options.interactive and options.terminal and not options.background and not is_terminal(STDIN):
        raise ConfigurationError("-t with -i: stdin is no terminal; leave out -t to pass it as it is")
    with open_sandbox(options.id) as sandbox:
        if options.background:
            return _in_background(sandbox, options)
        if options.terminal and options.interactive:
            with _start(sandbox, options) as process:
                Session(process, DetachKeys(b"")).run()
                return report(process.wait(), Asked(options.argv, options.timeout), as_json=False)
        with terminal_restored(), Signals(size=options.terminal) as signals, _start(sandbox, options) as process:
            if not options.interactive and not options.terminal:
                process.close_stdin()
            result = follow(process, signals, interactive=options.interactive, show=not options.json, raw=options.raw)
        return report(result, Asked(options.argv, options.timeout), as_json=options.json)


def _start(sandbox: ISandbox, options: ExecOptions) -> IProcess:
    return sandbox.start(
        options.argv,
        cwd=options.cwd,
        env=terminal_env(options.env) if options.terminal else options.env,
        timeout=options.timeout,
        max_output=MAX_OUTPUT_DEFAULT if options.json or options.background else 0,
        background=options.background,
        terminal=size_or_default() if options.terminal else None,
    )


def _in_background(sandbox: ISandbox, options: ExecOptions) -> int:
    process = _start(sandbox, options)
    if process.pid is None:  # it did not start
        return report(process.wait(), Asked(options.argv, options.timeout), as_json=options.json)
    if not options.interactive and not options.terminal:
        process.close_stdin()
    process.detach()
    if options.json:
        return say_object({"id": process.id, "pid": process.pid})
    return say(str(process.id), 0)


def report(result: ExecResult, what: Asked, *, as_json: bool) -> int:
    """What there is to say about a command's end, and its exit code."""
    if as_json:
        return say_object(result_object(result, what), end_code(result))
    for line in end_lines(result, what):
        write_all(STDERR, line)
    return end_code(result)


def size_or_default() -> TerminalSize:
    """The user's terminal's, else that of a VT100."""
    from isandbox.records import TerminalSize

    return terminal_size() or TerminalSize()


def terminal_env(env: Mapping[str, str]) -> Mapping[str, str]:
    """With the user's TERM, so that what runs inside speaks to the terminal that is there."""
    term = terminal_type()
    return {"TERM": term, **env} if term else env
