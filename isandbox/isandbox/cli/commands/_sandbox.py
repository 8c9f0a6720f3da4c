"""Options that several commands have: what a sandbox is made of, and how long it lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from isandbox.cli._complete import complete_backends, complete_directories, complete_files
from isandbox.cli.life.durations import parse_duration

F = TypeVar("F", bound=Callable[..., Any])

_SANDBOX = (
    click.option(
        "--type",
        "type_",
        metavar="TYPE",
        shell_complete=complete_backends,
        help="Backend; without it SANDBOX_TYPE, else the platform's native one.",
    ),
    click.option("--cpus", type=float, metavar="N", help="CPUs at once, a number; a fraction needs control groups."),
    click.option(
        "--memory", metavar="SIZE", help="Memory of the whole sandbox: bytes, or a number with KiB, MiB, GiB or TiB."
    ),
    click.option("--pids", type=int, metavar="N", help="Processes and threads at once; 256 where nothing is said."),
    click.option("--disk", metavar="SIZE", help="What may be written in all; with -w none."),
    click.option(
        "--mount", "mounts", multiple=True, metavar="SRC:TARGET[:ro|rw]", help="Show a host path inside; ro unless rw."
    ),
    click.option(
        "-e", "--env", "env", multiple=True, metavar="NAME[=VALUE]", help="Set a variable; a bare NAME copies the host's."
    ),
    click.option(
        "-w",
        "--workspace",
        metavar="DIR[:ro|rw]|none",
        shell_complete=complete_directories,
        help="Directory to work in, or none for an empty one of its own; the current one, read-only, without it.",
    ),
    click.option(
        "--waive", multiple=True, metavar="NAME", help="Do without this layer or quota, e.g. landlock. May be repeated."
    ),
    click.option(
        "--policy",
        metavar="FILE",
        shell_complete=complete_files,
        help="A policy file (TOML) instead of -w, --mount, --waive and the quotas.",
    ),
)

_LIFE = (
    click.option(
        "--lifetime", type=parse_duration, metavar="TIME", help="End it after so long: seconds, or a number with s, m, h or d."
    ),
    click.option(
        "--idle-timeout",
        type=parse_duration,
        metavar="TIME",
        help="End it when no command has run and nobody called for so long.",
    ),
    click.option("--label", "labels", multiple=True, metavar="K=V", help="A label to find it by. May be repeated."),
)


def sandbox_options(function: F) -> F:
    """Those of `isandbox run` that say what the sandbox is."""
    return _all(_SANDBOX, function)


def life_options(function: F) -> F:
    """Those that say how long it lives and what it is called."""
    return _all(_LIFE, function)


def _all(options: tuple[Callable[[F], F], ...], function: F) -> F:
    for option in reversed(options):
        function = option(function)
    return function
