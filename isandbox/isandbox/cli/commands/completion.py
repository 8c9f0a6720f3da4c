"""`isandbox completion`."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print the script with which SHELL completes isandbox's commands, options, backends and ids of sandboxes.

    The script calls isandbox itself at each completion. bash must be 4.4 or newer.

    \b
    Exit code:
      0    the script is printed
      2    wrong usage of isandbox
      125  it cannot be written
      141  nobody reads isandbox's output any more

    \b
    Examples:
      eval "$(isandbox completion bash)"    in ~/.bashrc
      eval "$(isandbox completion zsh)"     in ~/.zshrc, below compinit
      isandbox completion fish > ~/.config/fish/completions/isandbox.fish
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from isandbox.cli._script import completion_script
    from isandbox.cli._streams import hold_standard_descriptors, say

    hold_standard_descriptors()
    raise SystemExit(say(completion_script(shell), 0))
