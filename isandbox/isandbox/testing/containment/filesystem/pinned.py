"""Names that are protected, and attempts to change what they name."""

from __future__ import annotations

from pathlib import Path

from isandbox.errors import ConfigurationError, SandboxError
from isandbox.policy import Mount, Workspace
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.filesystem.links import READ_ONLY
from isandbox.testing.containment.host import contents
from isandbox.testing.containment.judge import REFUSED, judge, shown
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Renaming, exchanging or removing a mount point.
PINNED = REFUSED | {"EBUSY", "EEXIST"}

_RENAME = """
controls["moving another directory"] = attempt(os.rename, "/mnt/w/free", "/mnt/w/freed")
for old, new in (("a", "c"), ("a/b", "a/c"), ("a/b/kept", "a/b/moved"), ("a/b/kept", "moved")):
    out["move %s to %s" % (old, new)] = attempt(os.rename, "/mnt/w/" + old, "/mnt/w/" + new)
    if out["move %s to %s" % (old, new)] == "ok":
        os.rename("/mnt/w/" + new, "/mnt/w/" + old)
for name in ("a", "a/b", "a/b/kept"):
    out["exchange " + name] = call(NR["renameat2"], -100, b"/mnt/w/" + name.encode(), -100, b"/mnt/w/other", 2)
    if out["exchange " + name] == "ok":
        call(NR["renameat2"], -100, b"/mnt/w/" + name.encode(), -100, b"/mnt/w/other", 2)
out["over it"] = attempt(os.rename, "/mnt/w/other", "/mnt/w/a/b/kept")
out["unlink"] = attempt(os.unlink, "/mnt/w/a/b/kept")
out["link in its place"] = attempt(os.symlink, "/mnt/w/other", "/mnt/w/a/b/kept")
out["write"] = opened("/mnt/w/a/b/kept", os.O_WRONLY)
out["truncate"] = attempt(os.truncate, "/mnt/w/a/b/kept", 0)
out["unlink by descriptor"] = attempt(lambda: os.unlink("kept", dir_fd=os.open("/mnt/w/a/b", os.O_RDONLY)))
"""


@probe("A08", "A protected file keeps its name and its place", claim="files")
async def pinned(arena: Arena) -> Verdict:
    """A file that is mounted read-only inside a directory that may be written is not written, replaced, exchanged or removed;
    nor can a directory above it be moved, which would let another file appear to the host under its path.
    """
    place = _tree(arena)
    kept = place / "a" / "b" / "kept"
    before = contents(place / "a")
    mounts = [Mount(str(place), "/mnt/w", mode="rw"), Mount(str(kept), "/mnt/w/a/b/kept")]
    out, controls = await arena.attack(_RENAME, box=await arena.create(mounts=mounts))
    if not kept.exists() or contents(place / "a")["b/kept"] != before["b/kept"]:
        return Verdict("LEAK", detail="the file was changed or replaced on the host")
    return judge(out, controls, refused=PINNED, by={**READ_ONLY, "EEXIST": "mount point"})


def _tree(arena: Arena) -> Path:
    place = arena.directory()
    (place / "a" / "b").mkdir(parents=True)
    (place / "free").mkdir()
    for name in ("a/b/kept", "other"):
        (place / name).write_text(name)
        (place / name).chmod(0o666)
    for path in (place, place / "a", place / "a" / "b", place / "free"):
        path.chmod(0o777)
    return place


_POINT = """
controls["the real place"] = opened("/mnt/w/real/file")
for name in ("file", "new"):
    out[name] = opened("/mnt/w/link/" + name)
    sys.stdout.write(content("/mnt/w/link/" + name))
out["write"] = attempt(lambda: os.close(os.open("/mnt/w/link/new", os.O_CREAT | os.O_WRONLY)))
"""


_DENIED = """
controls["a file that is not denied"] = opened("a/b/other")
def tries(path):
    out["read " + path] = content(path, 4096) or "empty"
    out["write " + path] = opened(path, os.O_WRONLY)
tries("a/b/secret")
for old, new, path in (("a", "c", "c/b/secret"), ("a/b", "a/c", "a/c/secret"), ("a/b/secret", "a/plain", "a/plain")):
    if attempt(os.rename, old, new) == "ok":
        tries(path)
        os.rename(new, old)
out["link"] = attempt(os.link, "a/b/secret", "plain")
out["exchange"] = call(NR["renameat2"], -100, b"a/b/secret", -100, b"a/b/other", 2)
tries("a/b/secret")
"""


@probe("A08-deny", "What a workspace denies stays denied under another name", claim="files")
async def denied(arena: Arena) -> Verdict:
    """A denied file of the workspace is not read or written: by its name, after its directories have moved, by a link."""
    place = _tree(arena)
    (place / "a" / "b" / "secret").write_text(arena.canaries.new())
    (place / "a" / "b" / "other").write_text("x")
    box = await arena.create(workspace=Workspace(str(place), deny=("a/b/secret",)))
    out, controls = await arena.attack(_DENIED, box=box)
    return judge(out, controls, refused=PINNED | {"empty"}, by={**READ_ONLY, "EEXIST": "mount point", "empty": "cover"})


_RESERVED = """
controls["a name that is free"] = attempt(os.mkdir, "free")
os.mkdir("aside")
for name in ("config", "pre-commit"):
    open("aside/" + name, "w").close()
out[".git"] = attempt(os.mkdir, ".git")
out[".git by a move"] = attempt(os.rename, "aside", ".git")
out[".envrc"] = attempt(lambda: os.close(os.open(".envrc", os.O_CREAT | os.O_WRONLY)))
out[".envrc by a link"] = attempt(os.symlink, "aside/config", ".envrc")
out["a file for a directory"] = attempt(lambda: os.close(os.open(".vscode", os.O_CREAT | os.O_WRONLY)))
"""
_NAMES = (".git", ".envrc", ".vscode")


@probe("A09", "A denied name that is not there yet is not made", claim="files")
async def reserved(arena: Arena) -> Verdict:
    """Configuration that the host's tools would trust does not appear in a workspace where its name is denied."""
    place = arena.directory()
    place.chmod(0o777)
    try:
        async with arena.target.create(workspace=Workspace(str(place), deny=_NAMES)) as box:
            out, controls = await arena.attack(_RESERVED, box=box)
    except ConfigurationError as error:  # it denies only what is there
        return Verdict("NOT-PROVIDED", detail=shown(str(error)))
    made = [name for name in _NAMES if (place / name).exists() or (place / name).is_symlink()]
    if made:
        return Verdict("LEAK", detail=shown(["made on the host", *made]))
    return judge(out, controls, refused=PINNED, by={**READ_ONLY, "EEXIST": "placeholder"})


@probe("A11", "A link at a mount point does not move the mount", claim="files")
async def swapped(arena: Arena) -> Verdict:
    """In a directory that somebody else prepared, a mount point is a link to a place of the host: nothing is made, mounted or
    shown there; the sandbox does not start, or the link leads to nothing inside.
    """
    outside, _ = arena.plant("outside/file", mode=0o666)
    place, other = arena.directory(), arena.directory()
    (place / "real").mkdir()
    (place / "real" / "file").write_text("x")
    (place / "link").symlink_to(outside.parent)
    (other / "file").write_text("x")
    for path in (place, place / "real", other, outside.parent):
        path.chmod(0o777)
    arena.seal()
    first = await arena.create(mounts=[Mount(str(place), "/mnt/w", mode="rw")])
    out, controls = await arena.attack(_POINT, box=first)
    verdict = judge(out, controls)
    if verdict.outcome != "BLOCKED":
        return verdict
    try:
        mounts = [Mount(str(place), "/mnt/w", mode="rw"), Mount(str(other), "/mnt/w/link")]
        second = await arena.create(mounts=mounts)
    except (OSError, SandboxError) as error:
        arena.saw(error)
        return Verdict("BLOCKED", "refused at the start", shown(str(error)))
    look = "controls['it runs'] = 'ok'\nout['outside'] = opened(path)\nout['through the link'] = opened('/mnt/w/link/file')"
    out, controls = await arena.attack(look, box=second, path=str(outside))
    through = out.pop("through the link")
    verdict = judge(out, controls)
    if verdict.outcome != "BLOCKED":
        return verdict
    return Verdict("CONTAINED", "mount view", f"the link leads to a place inside; through it: {through}")
