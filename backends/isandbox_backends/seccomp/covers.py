"""What is covered in mounted directories, and what is pinned: a pure function of the mounts and of what is to be hidden.

A cover is an empty directory or file of the sandbox's own, read-only, laid over what is there. A mount holds its last name
only: with ``a/b`` covered, ``a`` could be renamed, and another ``a/b`` made for the host to find. So the directories above
a cover or a mount in a writable tree are pinned (see ``covers.c``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from isandbox_backends._shared.plan import Cover, Directory, File, Mountable, Store, View
from isandbox_backends.seccomp.hidden import outermost

STORE = "tmp/store"


@dataclass(frozen=True, slots=True)
class Source:
    """A resolved host path that the caller mounts. ``owner_is_user``: its owner appears as the command's user.

    ``hidden``: host paths below its own that it does not show, where they exist. ``deny``: places below the target that
    commands must not see; they exist, or the start fails.
    """

    path: str
    target: str
    writable: bool
    is_dir: bool
    owner_is_user: bool = False
    hidden: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


@dataclass(slots=True)
class Covers:
    """``store``: what is made before scratch space is covered. ``after``: by target, what follows that mount."""

    store: list[Mountable] = field(default_factory=list)
    after: dict[str, list[Mountable]] = field(default_factory=dict)


def plan_covers(sources: Sequence[Source]) -> Covers:
    """``sources``: with targets that differ, in the order of these.

    What the caller mounts at a hidden place, or below it, is seen: it is what was asked for.
    """
    covers = Covers()
    for source in sources:
        if not source.is_dir:
            continue
        inside = [other for other in sources if _is_below(other.target, source.target)]
        hides = _hides(source, inside)
        mine = [
            Cover(target[1:], source.target[1:], _room(target, inside, covers), needed=target in source.deny)
            for target in hides
        ]
        records = [*_pins(source, hides, inside, covers), *mine]
        if records:
            covers.after[source.target] = records
    if covers.after:
        head: list[Mountable] = [Directory(STORE), Directory(f"{STORE}/directory", 0o555), File(f"{STORE}/file", mode=0o444)]
        covers.store = [*head, *covers.store, Store(STORE)]
    return covers


def _is_below(path: str, place: str) -> bool:
    return path.startswith(f"{place}/")


def _at_or_below(path: str, place: str) -> bool:
    return path == place or _is_below(path, place)


def _hides(source: Source, inside: Sequence[Source]) -> list[str]:
    """Places of the sandbox at which this mount, and no other, would show what is hidden."""
    found = {source.target + place[len(source.path) :] for place in source.hidden} | set(source.deny)
    return [place for place in outermost(found) if not any(_at_or_below(place, other.target) for other in inside)]


def _room(place: str, inside: Sequence[Source], covers: Covers) -> str:
    """The cover for a place: one of its own where the caller mounts something below it, with the mount points in it."""
    below = [other for other in inside if _is_below(other.target, place)]
    if not below:
        return "directory"
    name = f"room-{len(covers.store)}"
    made, reached = {place}, list[str]()
    covers.store.append(Directory(f"{STORE}/{name}", 0o555))
    for other in sorted(below, key=lambda other: other.target.count("/")):
        if any(_is_below(other.target, above) for above in reached):
            continue  # in a directory of the host by then
        reached.append(other.target)
        target = PurePosixPath(other.target)
        for step in [*reversed(target.parents), target]:
            if _is_below(str(step), place) and str(step) not in made:
                made.add(str(step))
                kind = File if step == target and not other.is_dir else Directory
                covers.store.append(kind(f"{STORE}/{name}{str(step)[len(place) :]}"))
    return name


def _pins(source: Source, hides: Sequence[str], inside: Sequence[Source], covers: Covers) -> list[Mountable]:
    """A second view of a writable tree, and mount points in it on each directory above a place. The deepest first: what is
    below a pin cannot be reached any more.
    """
    if not source.writable:
        return []
    own = [other.target for other in inside if not any(_is_below(other.target, third.target) for third in inside)]
    points = [*hides, *(target for target in own if not any(_is_below(target, place) for place in hides))]
    above = {str(step) for point in points for step in PurePosixPath(point).parents if _is_below(str(step), source.target)}
    if not above:
        return []
    name = f"view-{len(covers.store)}"
    covers.store.append(Directory(f"{STORE}/{name}"))
    pins = sorted(above, key=lambda step: (-step.count("/"), step))
    return [
        View(source.target[1:], name),
        *(Cover(f"{name}{step[len(source.target) :]}", name, in_store=True) for step in pins),
    ]
