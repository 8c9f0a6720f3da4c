"""`isandbox ps`: the sandboxes there are, and the kept commands of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from isandbox.cli._layout import Column, age
from isandbox.cli._neutral import visible
from isandbox.cli._options import split_labels
from isandbox.cli._output import say_object, say_table
from isandbox.cli._streams import say
from isandbox.cli.life.edge import guarded
from isandbox.cli.life.ids import open_sandbox
from isandbox.records import signal_name

if TYPE_CHECKING:
    from isandbox.records import ProcessInfo, SandboxSummary

_SANDBOXES = (
    *(Column("ID"), Column("TYPE"), Column("STATE"), Column("AGE", right=True), Column("ENDS IN", right=True)),
    *(Column("OWNER"), Column("LABELS", cut=True)),
)
_COMMANDS = (
    *(Column("N", right=True), Column("PID", right=True), Column("STATE"), Column("AGE", right=True)),
    *(Column("TTY"), Column("OUTPUT", right=True), Column("COMMAND", cut=True)),
)


def ps_command(
    id: str | None, *, type: str | None, labels: Sequence[str], quiet: bool, everything: bool, as_json: bool
) -> int:
    """0, or 125."""
    wanted = split_labels(labels)

    def work() -> int:
        if id is not None:
            return _commands(id, quiet=quiet, everything=everything, as_json=as_json)
        return _sandboxes(type, wanted, quiet=quiet, everything=everything, as_json=as_json)

    return guarded(work, as_json=as_json)


def _sandboxes(type: str | None, labels: dict[str, str], *, quiet: bool, everything: bool, as_json: bool) -> int:
    from isandbox.sync import list_sandboxes

    found = list_sandboxes(type=type, labels=labels or None)
    shown = sorted((one for one in found if everything or one.state == "running"), key=lambda one: one.created_at)
    if as_json:
        return say_object({"sandboxes": [summary_object(one) for one in shown]})
    if quiet:  # for the arguments of another command: nothing that a program of this user's is in the middle of using
        return say_lines(one.id for one in shown if everything or one.detached)
    now = datetime.now(UTC)
    return say_table(_SANDBOXES, [_sandbox_row(one, now) for one in shown])


def _sandbox_row(one: SandboxSummary, now: datetime) -> tuple[object, ...]:
    left = None if one.expires_at is None or one.state != "running" else age((one.expires_at - now).total_seconds())
    owner = "detached" if one.detached else one.owner_pid
    labels = ",".join(f"{name}={value}" for name, value in sorted(one.labels.items()))
    return (one.id, one.backend, one.state, age((now - one.created_at).total_seconds()), left, owner, labels)


def summary_object(one: SandboxSummary) -> dict[str, Any]:
    """As ``ps --json`` has it. Times in ISO 8601, UTC."""
    return {
        "id": one.id,
        "type": one.backend,
        "state": one.state,
        "detached": one.detached,
        "created_at": one.created_at.isoformat(),
        "expires_at": None if one.expires_at is None else one.expires_at.isoformat(),
        "owner_pid": one.owner_pid,
        "labels": dict(one.labels),
    }


def _commands(text: str, *, quiet: bool, everything: bool, as_json: bool) -> int:
    with open_sandbox(text) as sandbox:
        found = sandbox.processes()
    if quiet:
        found = [one for one in found if everything or one.running]
    if as_json:
        return say_object({"commands": [process_object(one) for one in found]})
    if quiet:
        return say_lines(str(one.id) for one in found)
    now = datetime.now(UTC)
    return say_table(_COMMANDS, [_command_row(one, now) for one in found])


def _command_row(one: ProcessInfo, now: datetime) -> tuple[object, ...]:
    output = one.written.stdout + one.written.stderr
    passed = age((now - one.started_at).total_seconds())
    return (one.id, one.pid, state_of(process_object(one)), passed, "yes" if one.terminal else None, output, one.command)


def state_of(one: Mapping[str, Any]) -> str:
    """Of a `process_object`: ``running``, or how it ended in one or two words."""
    if one["running"]:
        return "running"
    if one["fault"] is not None:
        return str(one["fault"])
    return f"exit {one['exit_code']}" if one["signal"] is None else signal_name(one["signal"])


def process_object(one: ProcessInfo) -> dict[str, Any]:
    """As ``ps ID --json`` has it."""
    return {
        "id": one.id,
        "pid": one.pid,
        "command": one.command,
        "running": one.running,
        "exit_code": one.exit_code,
        "signal": one.signal,
        "fault": one.fault,
        "started_at": one.started_at.isoformat(),
        "terminal": one.terminal,
        "written": {"stdout": one.written.stdout, "stderr": one.written.stderr},
        "first": {"stdout": one.first.stdout, "stderr": one.first.stderr},
    }


def say_lines(lines: Iterable[str]) -> int:
    """One a line, each made visible: of a backend of somebody else's an id may be anything. Nothing at all when there are none."""
    text = "\n".join(map(visible, lines))
    return say(text, 0) if text else 0
