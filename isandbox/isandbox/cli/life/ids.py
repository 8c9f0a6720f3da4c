"""Which sandbox is meant: a whole id, or the beginning of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from isandbox._text import plain
from isandbox.errors import ConfigurationError, SandboxNotFoundError

if TYPE_CHECKING:
    from isandbox.records import ProcessInfo, SandboxSummary
    from isandbox.sync import ISandbox

T = TypeVar("T")

SHORTEST = 4
"""Characters of a beginning that follow the backend's name."""


def match_id(text: str, ids: Iterable[str]) -> str | None:
    """The id that is ``text`` or the only one that begins with it; ``None`` when there is none.

    Raises `ConfigurationError` for a beginning that is too short, and for one that several have, with all of them.
    """
    known = sorted(set(ids))
    if text in known:
        return text
    found = [one for one in known if one.startswith(text)]
    if not found:
        return None
    if not any(len(text) - len(one.rpartition("-")[0]) - 1 >= SHORTEST for one in found):
        raise ConfigurationError(
            f"{plain(text) or 'an empty id'}: the beginning of an id has {SHORTEST} characters or more after the backend's name, as in "
            f"{found[0][: found[0].rindex('-') + 1 + SHORTEST]}"
        )
    if len(found) > 1:
        raise ConfigurationError(f"{plain(text)}: several ids begin so: {', '.join(found)}")
    return found[0]


def find_summary(text: str) -> SandboxSummary:
    """Raises `SandboxNotFoundError`, and `ConfigurationError` as `match_id`."""
    from isandbox.sync import list_sandboxes

    listed = {one.id: one for one in list_sandboxes()}
    whole = match_id(text, listed)
    if whole is None:
        raise SandboxNotFoundError(f"there is no sandbox {plain(text)}; isandbox ps --all shows those there are")
    return listed[whole]


def by_id(do: Callable[[str], T], text: str) -> tuple[str, T]:
    """The whole id that is meant, and what ``do`` makes of it. A whole id costs no listing.

    Raises what ``do`` does, and `ConfigurationError` as `match_id`.
    """
    from isandbox.sync import list_sandboxes

    try:
        return text, do(text)
    except (SandboxNotFoundError, ConfigurationError):
        whole = match_id(text, (one.id for one in list_sandboxes()))
        if whole is None or whole == text:
            raise
    return whole, do(whole)


def open_sandbox(text: str) -> ISandbox:
    """A handle on it; leaving lets go. Raises as `isandbox.connect` and `match_id`."""
    from isandbox.sync import connect

    return by_id(connect, text)[1]


def find_command(sandbox: ISandbox, number: int | None) -> ProcessInfo:
    """The kept command of this number; without one the newest. Raises `SandboxNotFoundError`."""
    listed = sandbox.processes()
    found = next((one for one in reversed(listed) if number is None or one.id == number), None)
    if found is None:
        name = sandbox.info.id
        what = (
            "no background command yet; isandbox exec -d starts one" if number is None else f"no background command {number}"
        )
        raise SandboxNotFoundError(f"{name} has {what}" if number is None else f"{name} has {what}; isandbox ps {name}")
    return found
