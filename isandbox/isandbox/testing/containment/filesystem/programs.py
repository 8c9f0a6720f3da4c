"""Programs and settings that the host shares, so that there is something to run."""

from __future__ import annotations

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.filesystem.hostfiles import number
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Nothing is written, and a mode is set to what it is. ETXTBSY, of a program that runs, comes after every question of rights.
_WRITE = """
own = os.path.join(place(), "file")
controls["a file of its own"] = attempt(lambda: os.close(os.open(own, os.O_CREAT | os.O_WRONLY)))
controls["its mode"] = attempt(os.chmod, own, 0o600)

def written(path, flags):
    "The errno, or which file opened: the host may have another one there."
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as error:
        return word(error.errno)
    status = os.stat(path) if flags else os.fstat(descriptor)
    os.close(descriptor)
    return "%s %d %d" % (path, status.st_dev, status.st_ino)

tried = 0
for top in ("/usr/bin", "/usr/lib", "/usr/share", "/usr/local", "/etc"):
    for path, status in below(top, most=400, seconds=3):
        if stat.S_ISLNK(status.st_mode):
            continue
        tried += 1
        # In a directory a file without a name, gone when it is closed.
        answer = written(path, 0 if stat.S_ISREG(status.st_mode) else os.O_TMPFILE)
        changed = attempt(os.chmod, path, stat.S_IMODE(status.st_mode))
        for what, said in (("write", answer), ("chmod", changed)):
            name = "%s below %s" % (what, top)
            if out.get(name, "EROFS") in ("EROFS", "EACCES", "EPERM"):
                out[name] = said
controls["there is something"] = "ok" if tried > 100 else "%d" % tried
"""


@probe("A06-programs", "Programs, libraries and settings that are shared cannot be changed", claim="files")
async def programs(arena: Arena) -> Verdict:
    """Of more than a hundred files and directories of /usr and /etc none opens for writing or takes a mode, be it the one that it
    has, whoever the command is: what is changed there the host runs next.
    """
    out, controls = await arena.attack(_WRITE)
    for name, answer in out.items():
        path, *which = answer.split()
        if which and number(path) != " ".join(which):
            out[name] = "its own"
    return judge(out, controls, refused={"EROFS", "EACCES", "EPERM", "its own"}, by={"EACCES": "no permission"})
