"""What a shell completes: ids of sandboxes, backends, profiles, files. Used as ``shell_complete=`` of options and arguments.

A completion that cannot be found out is none: nobody wants an error while typing. Values are of alphabets that no shell acts
upon: the script that click writes for bash expands them once more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click
    from click.shell_completion import CompletionItem

    from isandbox.records import SandboxSummary

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def complete_ids(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of the user's sandboxes, each with what stands beside it in a list."""
    return _beginning(incomplete, known_ids())


def known_ids() -> Iterable[tuple[str, str]]:
    """Ids of those that run, each with its labels or whose it is."""
    from isandbox.errors import SandboxError
    from isandbox.sync import list_sandboxes

    try:
        found = [one for one in list_sandboxes() if one.state == "running"]
    except (SandboxError, OSError):
        return ()
    return [(one.id, _about(one)) for one in found]


def _about(one: SandboxSummary) -> str:
    from isandbox.cli._neutral import visible

    labels = " ".join(f"{name}={value}" for name, value in sorted(one.labels.items()))
    return visible(labels) if labels else "detached" if one.detached else f"of process {one.owner_pid}"


def complete_backends(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Every name that ``--type`` takes."""
    from isandbox._registry import backend_names

    return _beginning(incomplete, ((name, "") for name in backend_names()))


def complete_profiles(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The profiles of the backend of ``--type``, else of the default one."""
    return _beginning(incomplete, ((name, "") for name in words_of_option(ctx.params.get("type_"), "profile")))


def words_of_option(type_: str | None, option: str) -> tuple[str, ...]:
    """The words that an option of a backend's own takes, from the annotation of its record; none where it has no such list."""
    from isandbox._registry import load_backend
    from isandbox._settings import default_type
    from isandbox.errors import SandboxError

    try:
        hints: dict[str, Any] = get_type_hints(load_backend(type_ or default_type()).options)
    except (SandboxError, NameError):
        return ()
    return tuple(word for word in get_args(hints.get(option)) if isinstance(word, str))


def complete_files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell's own completion of paths."""
    return [_item(incomplete, type="file")]


def complete_directories(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell's own completion of directories."""
    return [_item(incomplete, type="dir")]


def _beginning(incomplete: str, pairs: Iterable[tuple[str, str]]) -> list[CompletionItem]:
    wanted = (pair for pair in pairs if pair[0].startswith(incomplete) and _WORD.match(pair[0]))
    return [_item(value, help=about or None) for value, about in wanted]


def _item(value: str, **more: Any) -> CompletionItem:
    from click.shell_completion import CompletionItem  # a run needs none of it

    return CompletionItem(value, **more)
