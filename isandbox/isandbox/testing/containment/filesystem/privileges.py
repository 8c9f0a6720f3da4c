"""Files that would give a privilege to who runs them: inside, or later on the host."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from isandbox.policy import Mount
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import REFUSED, judge, shown
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_SETID = """
import shutil
shell = os.path.realpath("/bin/sh")

def status(*command):
    lines = subprocess.check_output(list(command) + ["cat /proc/self/status"], stderr=subprocess.DEVNULL).decode().splitlines()
    return [line for line in lines if line.startswith(("Uid", "Gid", "CapEff", "CapPrm"))]

def fresh(top):
    path = "%s/file%d" % (top, len(out))
    shutil.copyfile(shell, path)
    os.chmod(path, 0o755)
    return path

def made(path, function, *args):
    "What came of it: the file has the bit, and whether running it gains anything; or the errno."
    answer = attempt(function, *args)
    if answer != "ok":
        return answer
    mode = os.lstat(path).st_mode
    if not mode & 0o6000:
        return "without the bit"
    if path.startswith(outside):
        return "made on the host"
    if stat.S_ISREG(mode) and os.path.getsize(path):
        return "no gain" if status(path, "-p", "-c") == status(shell, "-c") else "gained"
    return "no gain"

def create(path, mode):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))

def unnamed(path, mode):
    fd = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY, mode)
    os.link("/proc/self/fd/%d" % fd, path, follow_symlinks=True)
    os.close(fd)

def by_call(path, mode):
    answer = call(NR["fchmodat2"], -100, path.encode(), mode, 0)
    if answer != "ok":
        raise OSError(getattr(errno, answer, 0), answer)

def by_openat2(path, mode):
    answer = call(NR["openat2"], -100, path.encode(), struct.pack("=QQQ", os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode, 0), 24)
    if answer != "ok":
        raise OSError(getattr(errno, answer, 0), answer)

capability = struct.pack("<IIIII", 0x02000001, 0x200000, 0, 0, 0)
for name in (outside, os.getcwd(), "/tmp"):
    top = name if name == outside else place(name)
    attempt(os.chmod, top, 0o755)
    controls["a program in " + name] = attempt(os.chmod, fresh(top), 0o700)
    for mode in (0o4755, 0o2755, 0o6777):
        tag = "%o in %s" % (mode, name)
        file = fresh(top)
        out["chmod " + tag] = made(file, os.chmod, file, mode)
        file = fresh(top)
        out["fchmod " + tag] = made(file, lambda: os.fchmod(os.open(file, os.O_RDONLY), mode))
        file = fresh(top)
        out["fchmodat2 " + tag] = made(file, by_call, file, mode)
        for how, function in (("create", create), ("openat2", by_openat2), ("unnamed", unnamed), ("mknod", lambda path, mode: os.mknod(path, stat.S_IFREG | mode))):
            new = "%s/%s%d" % (top, how, len(out))
            out["%s %s" % (how, tag)] = made(new, function, new, mode)
    directory = top + "/shared"
    os.mkdir(directory)
    out["directory in " + name] = made(directory, os.chmod, directory, 0o2777)
    file = fresh(top)
    out["owner in " + name] = attempt(os.chown, file, 0, 0)
    out["capability in " + name] = attempt(os.setxattr, file, "security.capability", capability)
    if out["capability in " + name] == "ok" and name != outside:
        out["capability in " + name] = "no gain" if status(file, "-c") == status(shell, "-c") else "gained"
    if os.getuid() == 0:  # it is already
        out["owner in " + name] = "no gain"
"""


@probe("A21", "No file gives a privilege, inside or to the host", claim="privileges")
async def set_id(arena: Arena) -> Verdict:
    """Set-user-id and set-group-id bits, another owner and file capabilities: in a directory of the host none appears, by any
    call; elsewhere either none does, or who runs such a file has no more than before.
    """
    place = arena.directory()
    place.chmod(0o777)
    box = await arena.create(mounts=[Mount(str(place), "/mnt/w", mode="rw")])
    out, controls = await arena.attack(_SETID, box=box, outside="/mnt/w")
    if left := _privileged(place):
        return Verdict("LEAK", detail=shown(["left on the host", *left]))
    refused = REFUSED | {"EINVAL", "EOVERFLOW", "EOPNOTSUPP", "without the bit", "no gain"}
    unmapped = "ids that are not mapped"
    by = {
        "EINVAL": unmapped,
        "EOVERFLOW": unmapped,
        "without the bit": "the kernel drops the bit",
        "no gain": "no_new_privs or nosuid",
    }
    return judge(out, controls, refused=refused, by=by)


_MADE = """
controls["a file"] = attempt(lambda: os.close(os.open("/mnt/w/file", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)))
controls["a directory"] = attempt(os.mkdir, "/mnt/w/directory", 0o777)
for name in ("file", "directory"):
    mode = stat.S_IMODE(os.stat("/mnt/w/" + name).st_mode)
    out[name] = "others may write" if mode & 0o022 else "owner only"
"""


@probe("A21-mode", "What a command makes on the host is not for everybody to change", claim="privileges")
async def modes(arena: Arena) -> Verdict:
    """A file and a directory that are made with every permission in a mounted directory are not writable for group and others."""
    place = arena.directory()
    place.chmod(0o777)
    box = await arena.create(mounts=[Mount(str(place), "/mnt/w", mode="rw")])
    out, controls = await arena.attack(_MADE, box=box)
    return judge(out, controls, refused={"owner only"}, by={"owner only": "umask"})


def _privileged(place: Path) -> list[str]:
    """What there is below a directory of the host that gives somebody something."""
    found = []
    for path in [place, *place.rglob("*")]:
        status = path.lstat()
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            found.append(f"{path.name}: {status.st_mode & 0o7777:o}, owner {status.st_uid}")
        if not path.is_symlink() and "security.capability" in os.listxattr(path):
            found.append(f"{path.name}: security.capability")
    return found
