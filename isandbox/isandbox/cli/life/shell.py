"""`isandbox shell`: a shell at the user's terminal, in a sandbox of its own or in one that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from isandbox.cli._neutral import visible
from isandbox.cli._prepare import prepare
from isandbox.cli._report import Asked
from isandbox.cli._signals import Signals
from isandbox.cli._streams import STDERR, STDIN, say
from isandbox.cli.life.edge import SignalledError, guarded
from isandbox.cli.life.execute import report, size_or_default, terminal_env
from isandbox.cli.life.ids import find_command, open_sandbox
from isandbox.cli.life.keys import DetachKeys, parse_keys
from isandbox.cli.life.session import Session
from isandbox.cli.life.streams import follow, watch
from isandbox.cli.life.terminal import is_terminal
from isandbox.errors import ConfigurationError

if TYPE_CHECKING:
    from isandbox.cli.life.create import CreateOptions
    from isandbox.sync import IProcess, ISandbox

_SHELLS = ("/bin/bash", "/bin/sh")


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """Everything of one ``isandbox shell``. ``id`` of a sandbox that is there, or ``create``: how to make one."""

    argv: tuple[str, ...]
    id: str | None = None
    create: CreateOptions | None = None
    attach: int | None = None
    detach_keys: str = ""


def shell_command(options: ShellOptions) -> int:
    """The exit code of the shell; 0 when it goes on without us."""
    return guarded(lambda: _shell(options))


def _shell(options: ShellOptions) -> int:
    keys = parse_keys(options.detach_keys)
    if options.id is not None:
        with open_sandbox(options.id) as sandbox:
            if options.attach is not None:
                return _attach(sandbox, options.attach, keys)
            return _in(sandbox, Asked(options.argv), keys)
    if options.create is None:
        raise ConfigurationError("shell: neither a sandbox nor options for one")
    from isandbox.sync import create_sandbox

    new = prepare(options.create.run)
    with create_sandbox(new.type, **new.sandbox, **options.create.life()) as sandbox:
        return _in(sandbox, Asked(new.argv, memory=new.memory, hidden=new.hidden), b"")


def _in(sandbox: ISandbox, what: Asked, keys: bytes) -> int:
    """Start it: with a terminal, kept where there are keys to leave it; or, where stdin is none, as a plain command."""
    argv = what.argv or (_shell_of(sandbox),)
    what = Asked(argv, memory=what.memory, hidden=what.hidden)
    if not is_terminal(STDIN):
        with Signals() as signals, sandbox.start(argv, max_output=0) as process:
            result = follow(process, signals, interactive=True, show=True, raw=False)
        return report(result, what, as_json=False)
    kept = bool(keys)
    with sandbox.start(argv, env=terminal_env({}), terminal=size_or_default(), background=kept) as process:
        return _at_terminal(sandbox, process, what, keys)


def _attach(sandbox: ISandbox, number: int, keys: bytes) -> int:
    """Take up a kept command: what it writes from now on, on a screen that it draws anew; without a terminal all that is kept."""
    found = find_command(sandbox, number)
    what = Asked((found.command,))
    at_terminal = found.terminal and found.running and is_terminal(STDIN)
    with sandbox.attach(number, since=found.written if at_terminal else None) as process:
        if at_terminal:
            return _at_terminal(sandbox, process, what, keys, redraw=True)
        return report(watch(process), what, as_json=False)


def _at_terminal(sandbox: ISandbox, process: IProcess, what: Asked, keys: bytes, *, redraw: bool = False) -> int:
    try:
        if Session(process, DetachKeys(keys), redraw=redraw).run() == "ended":
            return report(process.wait(), what, as_json=False)
    except SignalledError:
        _say_goes_on(sandbox, process)
        raise
    _say_goes_on(sandbox, process)
    return 0


def _say_goes_on(sandbox: ISandbox, process: IProcess) -> None:
    if process.id is not None:
        said = f"isandbox: it goes on; take it up again with: isandbox shell {sandbox.info.id} --attach {process.id}"
        say(visible(said), 0, STDERR)  # its id is what a helper says


def _shell_of(sandbox: ISandbox) -> str:
    return next((path for path in _SHELLS if sandbox.files.exists(path)), _SHELLS[-1])
