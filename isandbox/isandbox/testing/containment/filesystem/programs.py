"""Programs and settings that the host shares, so that there is something to run."""

from __future__ import annotations

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Nothing is written, and a mode is set to what it is. ETXTBSY, of a program that runs, comes after every question of rights.
_WRITE = """
own = os.path.join(place(), "file")
controls["a file of its own"] = attempt(lambda: os.close(os.open(own, os.O_CREAT | os.O_WRONLY)))
controls["its mode"] = attempt(os.chmod, own, 0o600)
tried = 0
for top in ("/usr/bin", "/usr/lib", "/usr/share", "/usr/local", "/etc"):
    for path, status in below(top, most=400, seconds=3):
        if stat.S_ISLNK(status.st_mode):
            continue
        tried += 1
        if stat.S_ISREG(status.st_mode):
            answer = opened(path, os.O_WRONLY)
        else:
            answer = "ok" if os.access(path, os.W_OK) else "EACCES"
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
    return judge(out, controls, refused={"EROFS", "EACCES", "EPERM"}, by={"EACCES": "no permission"})
