"""Leases: a file that is opened elsewhere makes the kernel ask their holder first."""

from __future__ import annotations

from isandbox.policy import Mount
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# Asked back at once: nobody waits for it.
_LEASE = """
import fcntl
F_SETDELEG = 1040
def tried(command, kind, path, flags):
    fd = os.open(path, flags)
    try:
        return attempt(fcntl.fcntl, fd, command, kind)
    finally:
        attempt(fcntl.fcntl, fd, command, fcntl.F_UNLCK)
        os.close(fd)

made = "/mnt/w/own"
os.close(os.open(made, os.O_CREAT | os.O_WRONLY, 0o644))
with open(made) as file:
    controls["a lock"] = attempt(fcntl.flock, file, fcntl.LOCK_SH | fcntl.LOCK_NB)
for name, path in (("its own file there", made), ("a file of the host", "/mnt/w/file")):
    out["reading " + name] = tried(fcntl.F_SETLEASE, fcntl.F_RDLCK, path, os.O_RDONLY)
    out["writing " + name] = tried(fcntl.F_SETLEASE, fcntl.F_WRLCK, path, os.O_WRONLY)
out["directory"] = tried(F_SETDELEG, fcntl.F_RDLCK, "/mnt/w", os.O_RDONLY | os.O_DIRECTORY)
"""


@probe("A06-lease", "No lease on a mounted file holds up the host", claim="files")
async def leases(arena: Arena) -> Verdict:
    """In a directory that is mounted for writing no lease can be had, on a file of the sandbox's own or another: the host would
    wait for it, 45 seconds by default, whenever it opens that file.
    """
    place = arena.directory()
    place.chmod(0o777)
    (place / "file").write_text("x")
    (place / "file").chmod(0o666)
    box = await arena.create(mounts=[Mount(str(place), "/mnt/w", mode="rw")])
    out, controls = await arena.attack(_LEASE, box=box)
    # A delegation of a directory is what no kernel before 6.19 has: it takes the command for a wrong one.
    if out["directory"] == "EINVAL":
        del out["directory"]
    return judge(out, controls, by={"EPERM": "system call filter", "EACCES": "not its owner"})
