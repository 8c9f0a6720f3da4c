"""Two sandboxes side by side, and one after the other."""

from __future__ import annotations

import secrets

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.filesystem.hostfiles import number
from isandbox.testing.containment.judge import judge, shown
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# The neighbour: a file in each place that it has, and a process with the secret in its arguments and its environment.
_LIVE = """
for place in (os.getcwd(), "/tmp", os.environ.get("HOME", "/tmp")):
    with open(os.path.join(place, token), "w") as file:
        file.write(secret)
quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
subprocess.Popen(["sh", "-c", "sleep 20; :", secret], env={"PATH": os.environ["PATH"], "SECRET": secret}, **quiet)
out["cwd"], controls["lives"] = os.getcwd(), "ok"
"""
_STILL = """
out["file"] = content(token, 6)
out["process"] = str(any("sleep" in content("/proc/%s/cmdline" % pid) for pid in os.listdir("/proc") if pid.isdigit()))
"""
_LOOK = """
own = os.path.join("/tmp", "own-" + token)
open(own, "w").close()
found = [path for path, _ in below("/") if token in os.path.basename(path)]
controls["searching"] = "ok" if own in found else "not found in /tmp"
os.unlink(own)
for path in found:
    if path != own:
        out[path] = "found"
        sys.stdout.write(content(path))
for place in (cwd, "/tmp", "/var/tmp", "/home", "/run/user"):
    out[place] = opened(os.path.join(place, token))
processes = [pid for pid in os.listdir("/proc") if pid.isdigit()]
controls["processes"] = "ok" if str(os.getpid()) in processes else "not even its own"
for pid in processes:
    sys.stdout.write(content("/proc/%s/cmdline" % pid) + content("/proc/%s/environ" % pid))
    for link in ("cwd", "root"):
        name = "/proc/%s/%s/%s" % (pid, link, token)
        if opened(name) == "ok":
            out[name] = "ok"
"""


@probe("A02", "Another sandbox's files and processes are not seen", claim="neighbours")
async def neighbour(arena: Arena) -> Verdict:
    """A file in a neighbour's workspace, home and /tmp is found neither by its path, nor by a search, nor by its processes'
    links; its arguments and environment are not read.
    """
    secret, token = arena.canaries.new(), f"neighbour-{secrets.token_hex(8)}"
    other = await arena.create()
    lives, _ = await arena.attack(_LIVE, box=other, secret=secret, token=token)
    still, _ = await arena.attack(_STILL, box=other, token=token)
    out, controls = await arena.attack(_LOOK, token=token, cwd=lives["cwd"])
    controls["the neighbour's file"] = "ok" if still["file"] == "canary" else still["file"]
    controls["the neighbour's process"] = still["process"]
    return judge(out, controls, by={"ENOENT": "mount view"})


# An unnamed file in each directory says which of them can be written to, and leaves nothing.
_WRITABLE = """
import site
places = [path for path, status in below("/") if stat.S_ISDIR(status.st_mode)]
caches = [os.path.expanduser(os.path.join("~", name)) for name in (".cache", ".cache/pip", ".npm", ".cache/uv", ".local")]
places += sys.path + site.getsitepackages() + caches
places += ["/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/share"]
for path in places:
    if opened(path, os.O_TMPFILE | os.O_WRONLY) in ("ok", "EOPNOTSUPP"):
        status = os.stat(path)
        out[path] = "%d %d" % (status.st_dev, status.st_ino)
controls["some"] = "ok" if out else "no directory can be written to"
"""
_POISON = """
done = 0
for path in paths[:500]:
    done += attempt(lambda: os.close(os.open(os.path.join(path, token), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))) == "ok"
out["done"], controls["poisoned"] = done, "ok" if done else "nothing could be written"
"""
_TASTE = """
controls["searching"] = "ok" if any(path == "/tmp" for path, _ in below("/", most=2000)) else "there is no /tmp"
for path in paths:
    out[path] = opened(os.path.join(path, token))
for path, _ in below("/"):
    if token in path:
        out[path] = "found"
"""


@probe("A29", "What a sandbox writes does not wait for the next one", claim="neighbours")
async def poisoned(arena: Arena) -> Verdict:
    """Every place that one sandbox can write to is fresh in another, beside it and after it; none is the host's own."""
    token = f"poison-{secrets.token_hex(8)}"
    async with arena.target.create() as first:
        places, controls = await arena.attack(_WRITABLE, box=first)
        shared = [path for path, identity in places.items() if identity == number(path)]
        if shared:  # nothing is written there: it would be on the host
            return Verdict("LEAK", detail=shown(["directories of the host that can be written to", *shared]))
        done, poisoned = await arena.attack(_POISON, box=first, token=token, paths=list(places))
        beside, tasted = await arena.attack(_TASTE, token=token, paths=list(places))
    after, again = await arena.attack(_TASTE, box=await arena.create(), token=token, paths=list(places))
    out = {f"{when} {name}": value for when, found in (("beside", beside), ("after", after)) for name, value in found.items()}
    verdict = judge(out, {**controls, **poisoned, **tasted, **{f"{name} again": value for name, value in again.items()}})
    if verdict.outcome != "BLOCKED":
        return verdict
    return Verdict("CONTAINED", "mount view", f"{done['done']} directories written to, none of them seen by another")
