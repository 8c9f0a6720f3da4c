"""The command line. Only click is imported here, so that ``--help`` costs what a bare click program costs.

A command is defined in its own module below `isandbox.cli.commands`, which is imported when that command is called; what
``isandbox --help`` says of it stands in the table here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from isandbox import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """One command: the attribute ``attribute`` of `isandbox.cli.commands.<module>`, and its line in the list of commands."""

    module: str
    attribute: str
    short: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Run something": {
        "run": Entry("run", "run", "Run one command in a sandbox of its own."),
    },
    "Sandboxes that stay": {
        "create": Entry("create", "create", "Make a sandbox that stays, and print its id."),
        "exec": Entry("exec", "exec_", "Run a command in a sandbox that is there."),
        "shell": Entry("shell", "shell", "Open a shell in a sandbox, at your terminal."),
        "ps": Entry("ps", "ps", "List sandboxes, or the background commands of one (also ls)."),
        "logs": Entry("logs", "logs", "Print what a background command has written."),
        "kill": Entry("kill", "kill", "End sandboxes, or signal a background command of one."),
        "cp": Entry("cp", "cp", "Copy files between the host and a sandbox."),
        "inspect": Entry("inspect", "inspect", "Say all that is known of one sandbox."),
        "gc": Entry("gc", "gc", "Remove what sandboxes of dead owners have left behind."),
    },
    "Know this machine": {
        "doctor": Entry("doctor", "doctor", "Say what runs on this machine, and how to fix what does not."),
        "audit": Entry("audit", "audit", "Attack a backend's sandboxes and say what held."),
    },
    "Use isandbox": {
        "completion": Entry("completion", "completion", "Print the completion script of a shell."),
        "schema": Entry("schema", "schema", "Print the JSON Schema of what a command prints with --json."),
    },
}
"""Title of a section to its commands, in the order in which the help shows them."""

ALIASES = {"ls": "ps"}
"""Names that other tools have taught people; the help does not list them."""

ELSEWHERE = {
    "attach": "shell ID --attach N",
    "connect": "shell",
    "enter": "shell",
    "list": "ps",
    "new": "create",
    "prune": "gc",
    "rm": "kill",
    "start": "create",
    "stop": "kill",
    "copy": "cp",
}
"""What docker, podman and others call it: no names of ours, but told when somebody tries one."""


class CommandLine(click.Group):
    """The commands of `SECTIONS`, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for entries in SECTIONS.values() for name in entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _entries().get(ALIASES.get(cmd_name, cmd_name))
        if entry is None:
            return None
        from importlib import import_module

        command: click.Command = getattr(import_module(f"isandbox.cli.commands.{entry.module}"), entry.attribute)
        command.short_help = entry.short
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but that what is near or has another name elsewhere is named."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if (meant := _meant(args[0])) is None:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}; did you mean {meant}?", ctx) from None

    def main(self, *args: Any, **extra: Any) -> Any:
        """As click's, but that help which cannot be written is one line and 125, as it is with every command."""
        try:
            return super().main(*args, **extra)
        except OSError as error:
            if error.filename is not None:  # a file's, not that of our own output
                raise
            from isandbox.cli._streams import FAILED, give_up_stdout

            give_up_stdout(error)
            raise SystemExit(FAILED) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """By section, and without an import of any of them."""
        width = max(map(len, _entries()))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.short) for name, entry in entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands with their lines, again without an import of any of them; options of the group when one is begun."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [CompletionItem(name, help=one.short) for name, one in _entries().items() if name.startswith(incomplete)]


def _meant(name: str) -> str | None:
    from difflib import get_close_matches

    return ELSEWHERE.get(name) or next(iter(get_close_matches(name, _entries(), 1)), None)


def _entries() -> dict[str, Entry]:
    return {name: entry for entries in SECTIONS.values() for name, entry in entries.items()}


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="isandbox")
def main(**_: Any) -> None:
    """Run code that nobody has reviewed, and get an honest answer about what happened.

    Every command prints what a person reads, and with --json one object of a documented schema. isandbox COMMAND --help is its
    manual.
    """
