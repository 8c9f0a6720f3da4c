"""Ways around a path: dots, symbolic links, hard links."""

from __future__ import annotations

from isandbox.policy import Mount
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_TRAVERSE = """
def chain(name, target, length=12):
    "The kernel follows 40, and counts those of a first attempt without locks with the second's."
    os.symlink(target, name + "0")
    for number in range(length):
        os.symlink("%s%d" % (name, number), "%s%d" % (name, number + 1))
    return "%s%d" % (name, length)

os.makedirs("a/b", exist_ok=True)
with open("own", "w") as file:
    file.write("readable")
controls["a chain of links to its own"] = "ok" if content(chain("own", "own")) == "readable" else content("own12")
os.symlink(os.path.dirname(target), "directory")
os.symlink(target, "link")
os.symlink("/proc/self/cwd/" + "../" * 20 + target, "by-cwd")
os.symlink("/proc/self/root" + target, "by-root")
up = "../" * 20
names = ["link", "directory/" + os.path.basename(target), "by-cwd", "by-root", chain("chained", target), up + target, "a/.." + "/.." * 20 + target,
         "a/b/" + up + target, "/proc/self/cwd/" + up + target, "/proc/self/fd/../cwd/" + up + target, "/dev/fd/../../" + up + target]
for name in names:
    out["read " + name] = opened(name)
    out["write " + name] = opened(name, os.O_WRONLY)
    if out["read " + name] == "ok":
        sys.stdout.write(content(name))
# Through a link a file is made where the link points, if anywhere.
os.symlink(target + ".new", "dangling")
out["create"] = attempt(lambda: os.close(os.open("dangling", os.O_CREAT | os.O_WRONLY)))
out["create in"] = attempt(lambda: os.close(os.open("directory/new", os.O_CREAT | os.O_WRONLY)))
out["truncate"], out["chmod"] = attempt(os.truncate, "link", 0), attempt(os.chmod, "link", 0o777)
"""


@probe("A06", "Dots and symbolic links do not lead out", claim="files")
async def traverse(arena: Arena) -> Verdict:
    """A file outside neither opens for reading or writing nor is made, changed or cut short: by parents, links, chains of
    links, directories that are links, and the working directory's link in /proc.
    """
    path, _ = arena.plant("outside/canary", mode=0o666)
    path.parent.chmod(0o777)
    arena.seal()
    out, controls = await arena.attack(_TRAVERSE, target=str(path))
    return judge(out, controls)


_CHANGE = """
def changes(file):
    yield "open", opened(file, os.O_WRONLY)
    yield "open both ways", opened(file, os.O_RDWR)
    yield "append", opened(file, os.O_WRONLY | os.O_APPEND)
    yield "truncate", attempt(os.truncate, file, 0)
    yield "chmod", attempt(os.chmod, file, 0o777)
    yield "utime", attempt(os.utime, file, (1, 1))
    yield "rename", attempt(os.rename, file, file + ".moved")
    yield "unlink", attempt(os.unlink, file)
    yield "link", attempt(os.link, file, file + ".link")
    yield "link to another directory", attempt(os.link, file, os.path.dirname(file) + "/inner/link")
    yield "attribute", attempt(os.setxattr, file, "user.probe", b"1")

def additions(top):
    new = top + "/new-by-probe"
    yield "file", attempt(lambda: os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)))
    yield "unnamed", opened(top, os.O_TMPFILE | os.O_WRONLY)
    yield "directory", attempt(os.mkdir, new + "-d")
    yield "link", attempt(os.symlink, "x", new + "-l")
    yield "fifo", attempt(os.mkfifo, new + "-f")
    yield "directory away", attempt(os.rmdir, top + "/inner")

if os.path.isdir(fair):
    with open(fair + "/file", "w") as file:
        file.write("x")
    for name, answer in list(changes(fair + "/file"))[:6]:
        controls["where it may: " + name] = answer
controls["reading"] = opened(mounted + "/file")
descriptor = os.open(mounted + "/file", os.O_RDONLY)
out["open by /proc"] = opened("/proc/self/root" + mounted + "/file", os.O_WRONLY)
out["open by a descriptor"] = opened("/proc/self/fd/%d" % descriptor, os.O_WRONLY)
out["chmod by a descriptor"] = attempt(os.fchmod, descriptor, 0o777)
for name, answer in list(additions(mounted)) + list(changes(mounted + "/file")):
    out[name] = answer
"""
READ_ONLY = {"EROFS": "read-only mount", "EACCES": "no right to write", "EXDEV": "separate mounts", "EBUSY": "mount point"}


@probe("A06-readonly", "What is mounted read-only stays as it is", claim="files")
async def read_only(arena: Arena) -> Verdict:
    """A directory that anybody may write to on the host, mounted read-only: nothing in it is opened for writing, made, moved,
    linked, removed or marked; the same works in one that is mounted for writing.
    """
    place, fair = arena.shared("place"), arena.directory()
    fair.chmod(0o777)
    box = await arena.create(mounts=[Mount(str(place), "/mnt/place"), Mount(str(fair), "/mnt/fair", mode="rw")])
    out, controls = await arena.attack(_CHANGE, box=box, mounted="/mnt/place", fair="/mnt/fair")
    return judge(out, controls, by=READ_ONLY)


_LINK = """
with open("own", "w") as file:
    file.write("x")
controls["a link of its own"] = attempt(os.link, "own", "own-link")
for number, target in enumerate(targets):
    for top in places:
        if not os.path.isdir(top):
            continue
        name = "%s/hard%d" % (place(top), number)
        for how, source in (("", target), (" by /proc", "/proc/self/root" + target)):
            out["link %s to %s%s" % (target, top, how)] = attempt(os.link, source, name)
            if opened(name, os.O_WRONLY) == "ok":
                out["write %s in %s" % (target, top)] = "ok"
                sys.stdout.write(content(name))
            if os.path.lexists(name):
                os.unlink(name)
        out["move %s to %s" % (target, top)] = attempt(os.rename, target, name)
"""


@probe("A07", "Hard links lead to nothing that may not be written", claim="files")
async def hard_link(arena: Arena) -> Verdict:
    """Neither a file outside nor one that is mounted read-only is linked or moved to where it could be written, though both
    places are on one file system of the host.
    """
    outside, _ = arena.plant("canary", mode=0o666)
    place, fair = arena.shared("place"), arena.directory()
    fair.chmod(0o777)
    box = await arena.create(mounts=[Mount(str(place), "/mnt/place"), Mount(str(fair), "/mnt/fair", mode="rw")])
    targets, places = [str(outside), "/mnt/place/file"], [".", "/tmp", "/mnt/fair", "/dev/shm"]
    out, controls = await arena.attack(_LINK, box=box, targets=targets, places=places)
    return judge(out, controls, by=READ_ONLY)
