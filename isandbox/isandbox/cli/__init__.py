"""The command line. Only click is imported here, so that ``--help`` costs what a bare click program costs."""

from __future__ import annotations

from typing import Any

import click

from isandbox import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="isandbox")
def main() -> None:
    """Run code that nobody has reviewed, and get an honest answer about what happened."""


@main.command(context_settings={"allow_interspersed_args": False}, short_help="Run one command in a sandbox of its own.")
@click.option("--type", "type_", metavar="TYPE", help="Backend; without it SANDBOX_TYPE, else the platform's native one.")
@click.option("--cpus", type=float, metavar="N", help="CPUs at once.")
@click.option("--memory", metavar="SIZE", help="Memory of the whole sandbox, e.g. 512MiB.")
@click.option("--timeout", type=float, metavar="SECONDS", help="End the command after this long (exit code 124).")
@click.option("--mount", "mounts", multiple=True, metavar="SRC:TARGET[:ro|rw]", help="Show a host path inside; ro unless rw.")
@click.option("--env", "env", multiple=True, metavar="NAME[=VALUE]", help="Set a variable; a bare NAME copies the host's.")
@click.option("-w", "--workspace", metavar="DIR[:ro|rw]", help="Directory to work in; the current one, read-only, without it.")
@click.option(
    "--toolchain",
    type=click.Choice(["auto", "none"]),
    default="auto",
    show_default=True,
    help="auto: show, read-only, the installation that the program on your PATH belongs to.",
)
@click.option(
    "--waive", multiple=True, metavar="NAME", help="Run without this layer or quota, e.g. landlock. May be repeated."
)
@click.option("--policy", metavar="FILE", help="A policy file (TOML) instead of -w, --mount, --cpus, --memory and --waive.")
@click.option("--json", "json_", is_flag=True, help="Stream nothing; print one JSON object at the end.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def run(**options: Any) -> None:
    """Run CMD in a sandbox of its own and exit with its exit code.

    CMD works in the current directory, which it can read and not write (-w .:rw lets it), without a network and without
    your environment, home directory or other files. Its output arrives as it is written. Your standard input is
    read ahead for it, as ssh does; < /dev/null keeps that for others. It has pipes, never your terminal: an interactive
    program shows no prompt.

    Inside, the current directory is /workspace (with the local backend it keeps its path). CMD's arguments are passed as they
    are, so name files by relative paths.

    \b
    Exit code:
      the command's own; 128 + n when signal n ended it
      2    wrong usage of isandbox
      124  the time-out of --timeout
      125  isandbox itself failed; the reason is on stderr
      126  CMD cannot be executed
      127  CMD was not found
      141  nobody reads isandbox's output any more

    SIGINT, SIGTERM and SIGHUP are passed on to the command; a second Ctrl-C kills it.

    With --json one object is printed: exit_code, signal, fault (timeout, oom, cpu, output, cancelled, killed or null),
    limits_hit (sorted names of quotas that refused something), stdout and stderr (text; head and tail of what is over 1 MiB),
    truncated, lingering, start_error, duration and cpu_time (seconds), max_rss (bytes). When isandbox itself fails:
    {"error": {"code": ..., "message": ...}} and exit code 125.

    With --policy FILE the file alone says what CMD sees and may use: neither the current directory nor a toolchain is added.
    Relative paths in it begin at its own directory. --env adds variables to it. What isandbox.toml and ISANDBOX_* variables
    set are defaults of the other options; docs/configuration.md has all of them.

    --toolchain auto never executes anything to find the program: it reads links, pyvenv.cfg, pyenv's version files and
    "#!" lines. It never shows /, /etc, or a home directory.
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    try:
        from isandbox.cli._options import parse_options
        from isandbox.cli._run import run_command

        code = run_command(parse_options(**options))
    except KeyboardInterrupt:  # before there is a command, or after it
        code = 130
    raise SystemExit(code)


@main.command(short_help="Say which backends run here, and what the others need.")
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
def doctor(*, json_: bool) -> None:
    """Say which backends run here, what each one enforces, and what the others need.

    A backend of this machine is tried: a sandbox is started, runs "true" and is closed. Others are only asked.

    \b
    Exit code:
      0    the backend that create_sandbox() takes without a type can run
      1    it cannot; the reason and what to do are printed
      2    wrong usage of isandbox
      125  nothing can be printed
      141  nobody reads isandbox's output any more

    With --json one object is printed: default (name, chosen_by: "SANDBOX_TYPE", "platform" or a settings file, reason: null when
    it can run) and backends, a list: name, aliases, available, tried, reason (null when available), and for an available one isolation,
    quotas and policies (name to kind: "kernel", "watched" or "unsupported", period in seconds, note, instead), verbs,
    weaknesses, layers (name to "enforced" or "absent", with more in brackets; of the sandbox that was tried).
    """  # noqa: D301 - as above
    from isandbox.cli._doctor import doctor_command

    raise SystemExit(doctor_command(as_json=json_))


@main.command(short_help="Attack a backend's sandboxes and say what held.")
@click.option("--type", "type_", metavar="TYPE", help="Backend; without it SANDBOX_TYPE, else the platform's native one.")
@click.option(
    "--only", multiple=True, metavar="ID", help="Only the probes whose id begins so, e.g. A or B14. May be repeated."
)
@click.option("--json", "json_", is_flag=True, help="Print one JSON object at the end.")
def audit(*, type_: str | None, only: tuple[str, ...], json_: bool) -> None:
    """Run the containment probes in sandboxes of a backend and print what became of each.

    Every probe runs inside a sandbox of its own, which needs a python3. It tries what an attacker would, by opening and
    closing, without writing to anything of the host, and says what stopped it. What the backend does not claim to stop is not
    tried.

    \b
    BLOCKED       refused
    CONTAINED     it worked, and only inside
    NOT-PROVIDED  the backend does not claim this
    LEAK          it reached the host, or was answered in a way that is no refusal
    VACUOUS       nothing is proven: the positive control failed, or there is nothing to attack on this machine

    \b
    Exit code:
      0    no LEAK
      1    at least one LEAK
      2    wrong usage of isandbox
      125  the backend cannot run or the audit failed, and the reason is on stderr; or all that was tried is VACUOUS
      130  interrupted; 129 and 143 when SIGHUP or SIGTERM ended it
      141  nobody reads isandbox's output any more

    With --json one object is printed: type, counts (outcome to number), figures (name to number) and findings, a list: probe,
    title, group, outcome, mechanism, detail, figures.
    """  # noqa: D301 - as above
    from isandbox.cli._audit import audit_command

    raise SystemExit(audit_command(type_, only=only, as_json=json_))
