"""The mount plan against an oracle that knows the rules and not the plan: what is seen at a path, and may it be written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from isandbox import ConfigurationError
from isandbox_backends._shared.plan import RDONLY, Bind, Cover, Directory, File, Mountable, Rebind, Store, Symlink, View
from isandbox_backends.seccomp.covers import Source
from isandbox_backends.seccomp.mounts import WORKSPACE, mount_plan
from isandbox_backends.seccomp.view import HostView

VIEW = HostView(links=(), directories=(), etc_links=(), etc_binds=(), etc_copies=(), devices=(), masked=())
Tree = dict[str, bool]  # path of the host -> is it a directory
TAILS = st.lists(st.sampled_from("ab"), max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))


def above(path: str, top: str = "") -> list[str]:
    """The path and what it is in, the deepest first, down to ``top``, which is left out."""
    steps = [path[:at] for at, char in enumerate(path) if char == "/" and at > len(top)]
    return [path, *reversed(steps)]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """A directory /h with directories, and files among its leaves."""
    paths = {step for tail in draw(st.lists(TAILS, min_size=3, max_size=8)) for step in above(f"/h{tail}")} | {"/h"}
    inner = {step for path in paths for step in above(path)[1:]}
    return {path: path in inner or path == "/h" or draw(st.booleans()) for path in sorted(paths)}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Tree, Source | None, list[Source]]:
    """A host's tree, a workspace and mounts out of it, and places in it that are to be hidden, whether there or not."""
    tree = draw(trees())
    there = st.sampled_from(list(tree))
    hidden = draw(st.lists(there | TAILS.map(lambda tail: f"/h{tail}"), unique=True, min_size=1, max_size=4))

    def source(target: str, paths: list[str]) -> Source:
        path = draw(st.just(paths[0]) | st.sampled_from(paths))  # the whole tree half of the time
        mine = tuple(place for place in hidden if place.startswith(f"{path}/"))
        return Source(path, target, draw(st.booleans()), tree[path], hidden=mine)

    tails = there.map(lambda path: path.removeprefix("/h")) | TAILS
    places = st.tuples(st.sampled_from([WORKSPACE, "/m", "/tmp"]), tails).map("".join).filter("/tmp".__ne__)
    targets = draw(st.lists(places, unique=True, min_size=2, max_size=6))
    directories = [path for path, is_dir in tree.items() if is_dir]
    workspace = source(WORKSPACE, directories) if draw(st.booleans()) else None
    mounts = [source(target, list(tree)) for target in targets if target != WORKSPACE or workspace is None]
    if workspace is not None:
        below = [path for path in tree if path.startswith(f"{workspace.path}/")]
        denied = draw(st.lists(st.sampled_from(below), max_size=2)) if below else []
        workspace = replace(workspace, deny=tuple(WORKSPACE + path[len(workspace.path) :] for path in denied))
    return tree, workspace, mounts


# -- the oracle


def expected(tree: Tree, sources: list[Source], path: str) -> tuple[str, bool] | None:
    """The host's path that is seen there and whether it can be written; ``None``: nothing of the host."""
    holders = [source for source in sources if source.target in above(path)]
    if not holders:
        return None
    holder = max(holders, key=lambda source: len(source.target))
    there = holder.path + path[len(holder.target) :]
    places = set(above(there, holder.path))
    if any(place in tree for place in places & set(holder.hidden)) or set(above(path, holder.target)) & set(holder.deny):
        return None
    return (there, holder.writable) if there in tree else None


# -- a kernel that carries the plan out on paper


@dataclass
class Paper:
    """``mounts``: in order, (target, host's path or None for the sandbox's own, writable). ``own``: entries of its root."""

    tree: Tree
    mounts: list[tuple[str, str | None, bool]] = field(default_factory=list)
    own: dict[str, bool] = field(default_factory=lambda: {"/": True})
    store: dict[str, bool] = field(default_factory=dict)
    rooms: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    pins: set[tuple[str, str]] = field(default_factory=set)
    pinned: set[str] = field(default_factory=set)

    def seen(self, path: str) -> tuple[str, bool] | None:
        for target, host, writable in reversed(self.mounts):
            if target in above(path):
                there = None if host is None else host + path[len(target) :]
                return (there, writable) if there in self.tree else None
        return None

    def kind(self, path: str) -> bool | None:
        """Whether a directory stands there; ``None``: nothing does."""
        for target, host, _ in reversed(self.mounts):
            if target in above(path):
                if host is not None:
                    return self.tree.get(host + path[len(target) :])
                room = self.rooms.get(target)
                return self.store.get(room + path[len(target) :]) if room else self.own.get(path)
        return self.own.get(path)

    def carry_out(self, record: Mountable) -> None:
        match record:
            case Directory(target=target) | File(target=target):
                entries = self.store if target.startswith("tmp/store/") else self.own
                name = target.removeprefix("tmp/store/") if entries is self.store else f"/{target}"
                assert name not in entries, f"{target} made twice"
                entries[name] = isinstance(record, Directory)
            case Bind(source=source, target=target, attributes=attributes):
                self.attach(f"/{target}", source, not attributes & RDONLY, source in self.tree)
            case Rebind(target=target):
                self.own = {path: kind for path, kind in self.own.items() if not path.startswith(f"/{target}/")}
                self.mounts.append((f"/{target}", None, True))
            case View(source=source, name=name):
                seen = self.seen(f"/{source}")
                assert seen is not None
                self.views[name] = seen[0]
            case Cover():
                self.cover(record)
            case Store() | Symlink():
                pass

    def attach(self, target: str, source: str, writable: bool, of_the_host: bool) -> None:
        if of_the_host:
            if self.kind(target) is not self.tree[source]:
                raise LookupError(target)
            assert target not in {place for place, host, _ in self.mounts if host is not None}, f"{target} mounted twice"
        self.mounts.append((target, source if of_the_host else None, writable))

    def cover(self, record: Cover) -> None:
        if record.in_store:
            view, _, rest = record.target.partition("/")
            assert not any((view, step) in self.pins for step in above(f"/{rest}")), "below a pin nothing can be reached"
            if self.tree.get(place := f"{self.views[view]}/{rest}"):
                self.pins.add((view, f"/{rest}"))
                self.pinned.add(place)
            return
        target = f"/{record.target}"
        kind = self.kind(target)
        if kind is None:
            assert not record.needed
            return
        self.mounts.append((target, None, False))
        self.rooms[target] = record.name if kind else "file"


def on_paper(tree: Tree, workspace: Source | None, mounts: list[Source]) -> Paper:
    """Raises `LookupError` for a mount whose place is not there, as the kernel refuses it."""
    paper = Paper(tree)
    for record in mount_plan(VIEW, workspace, mounts):
        paper.carry_out(record)
    return paper


def possible(world: Any) -> tuple[Paper, Source | None, list[Source]]:
    """A world without the mounts that have no place in it."""
    tree, workspace, mounts = world
    while True:
        try:
            return on_paper(tree, workspace, mounts), workspace, mounts
        except LookupError as error:
            mounts = [source for source in mounts if source.target != error.args[0]]
        except ConfigurationError:
            assume(False)


PATHS = st.tuples(st.sampled_from([WORKSPACE, "/m", "/tmp"]), TAILS, TAILS).map("".join)


@given(worlds(), st.lists(PATHS, min_size=20, max_size=20))
def test_what_is_seen_is_what_the_rules_say(world: Any, paths: list[str]) -> None:
    """At any path the plan shows what the most specific mount has there, writable if that is, less what is hidden or denied."""
    tree, workspace, mounts = world
    try:
        paper = on_paper(tree, workspace, mounts)
    except (ConfigurationError, LookupError):
        assume(False)
    sources = [*mounts] if workspace is None else [workspace, *mounts]
    for path in [*paths, *(source.target for source in sources)]:
        assert paper.seen(path) == expected(paper.tree, sources, path), path


@given(worlds(), st.randoms())
def test_any_order_gives_the_same_plan(world: Any, chance: Any) -> None:
    """Mounts in another order, and what is hidden in another order, give the same plan or the same refusal."""
    _, workspace, mounts = world

    def outcome(sources: list[Source]) -> object:
        try:
            return mount_plan(VIEW, workspace, sources)
        except ConfigurationError as error:
            return str(error)

    shuffled = [replace(source, hidden=source.hidden[::-1]) for source in mounts]
    chance.shuffle(shuffled)
    assert outcome(mounts) == outcome(shuffled)


@given(worlds())
def test_what_is_above_a_place_is_pinned(world: Any) -> None:
    """In a writable mount no directory above a cover, or above another mount, can be renamed away."""
    paper, workspace, mounts = possible(world)
    sources = [*mounts] if workspace is None else [workspace, *mounts]
    for target, _, _ in paper.mounts:
        for step in above(target)[1:]:
            seen = paper.seen(step)
            is_mount = any(place == step for place, _, _ in paper.mounts)
            if seen is not None and seen[1] and not is_mount and any(source.target in above(step) for source in sources):
                assert seen[0] in paper.pinned, (target, step)


@given(worlds())
def test_what_the_caller_mounts_is_seen(world: Any) -> None:
    """A hidden place that is mounted itself, or lies above what is mounted, is there: its name was said."""
    paper, workspace, mounts = possible(world)
    covers = {f"/{record.target}" for record in mount_plan(VIEW, workspace, mounts) if isinstance(record, Cover)}
    for source in mounts:
        assert source.target not in covers
        assert paper.seen(source.target) == (source.path, source.writable)


def test_a_mount_below_a_hidden_place() -> None:
    """The cover has the mount point in it, so that one file of a hidden directory can be given and its neighbours not."""
    tree = {"/h": True, "/h/a": True, "/h/a/b": False, "/h/a/c": False}
    home = Source("/h", "/m", writable=True, is_dir=True, hidden=("/h/a",))
    paper = on_paper(tree, None, [home, Source("/h/a/b", "/m/a/b", writable=False, is_dir=False)])
    assert paper.seen("/m/a/b") == ("/h/a/b", False)
    assert paper.seen("/m/a/c") is None
    assert paper.kind("/m/a/b") is False


def test_the_model_notices() -> None:
    """Without its covers a plan shows what was hidden, and the check above would see it."""
    tree = {"/h": True, "/h/a": True, "/h/a/b": False}
    home = Source("/h", "/m", writable=True, is_dir=True, hidden=("/h/a/b",))
    paper = Paper(tree)
    for record in mount_plan(VIEW, None, [home]):
        if not isinstance(record, Cover):
            paper.carry_out(record)
    assert paper.seen("/m/a/b") == ("/h/a/b", True)
    assert expected(tree, [home], "/m/a/b") is None
    assert not paper.pinned


@pytest.mark.parametrize("workspace", [True, False])
def test_two_at_one_place(workspace: bool) -> None:
    """Two mounts at one place are refused, with the names of both, also where one of them is the workspace."""
    one, two = (Source(f"/h/{name}", WORKSPACE, writable=False, is_dir=True) for name in "ab")
    with pytest.raises(ConfigurationError, match=r"/h/a and /h/b at /workspace"):
        mount_plan(VIEW, one if workspace else None, [two] if workspace else [two, one])
