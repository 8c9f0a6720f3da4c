"""The completion scripts, which click writes."""

from __future__ import annotations

from click.shell_completion import get_completion_class

from isandbox.cli import main

PROGRAM = "isandbox"


def completion_script(shell: str) -> str:
    """For ``bash``, ``zsh`` or ``fish``. Nothing is run: click's own way asks an installed bash for its version."""
    kind = get_completion_class(shell)
    if kind is None:
        raise LookupError(f"click has no completion for {shell}")
    script = kind(main, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    return (script.source_template % script.source_vars()).strip()
