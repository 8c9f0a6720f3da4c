"""Files of the host that were not mounted, and those of other sandboxes."""

from __future__ import annotations

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.filesystem.hostfiles import identity, present, same_file
from isandbox.testing.containment.judge import REFUSED, judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_HOME = (
    ".ssh/id_ed25519", ".aws/credentials", ".config/gcloud/credentials.db", ".azure/msal_token_cache.json", ".kube/config",
    ".docker/config.json", ".netrc", ".git-credentials", ".pypirc", ".npmrc", ".bash_history", ".zsh_history",
)  # fmt: skip
_SYSTEM = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers", "/etc/machine-id", "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ed25519_key", "/root/.bashrc", "/root/.profile", "/root/.bash_history", "/var/log/dpkg.log",
    "/var/lib/dpkg/status", "/etc/fstab", "/etc/crontab",
)  # fmt: skip
OWN = "its own"

# A marker of its own must be found by the same search, and read by the same call.
READ = """
mark = os.path.join("/tmp", "own-" + token)
with open(mark, "w") as file:
    file.write("readable")
controls["reading"] = "ok" if content(mark) == "readable" else content(mark)
found = [path for path, _ in below("/") if token in os.path.basename(path)]
controls["searching"] = "ok" if mark in found else "not found in /tmp"
os.unlink(mark)
for path in found:
    if path != mark:
        out[path] = "found"
for path in paths:
    for name in (path, "/proc/self/root" + path, "/proc/1/root" + path, "/proc/thread-self/root" + path, "/../.." + path):
        out[name] = opened(name)
        if out[name] == "ok":
            sys.stdout.write(content(name))
"""
# A directory that must not be listed, and a program in it that must not run: it does nothing.
_LIST_AND_RUN = """
for name in ("", "/proc/1/root", "/../.."):
    directory, ran = name + os.path.dirname(program), name + program
    out["list " + directory] = attempt(os.listdir, directory)
    out["run " + ran] = attempt(subprocess.call, [ran], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""


@probe("A01", "Files in a home directory of the host cannot be read", claim="files")
async def home(arena: Arena) -> Verdict:
    """Keys, tokens and histories that everybody may read do not open by their path, nor by links of /proc; nor is their
    directory found by a search, or listed, or a program in it run.
    """
    paths = [str(arena.plant(name)[0]) for name in _HOME]
    program = arena.planted / "program"
    program.write_text("#!/bin/true\n")
    program.chmod(0o755)
    arena.seal()
    out, controls = await arena.attack(_LIST_AND_RUN + READ, paths=paths, token=arena.planted.name, program=str(program))
    return judge(out, controls, by={"EACCES": "no permission"})


_IDENTIFY = """
controls["reading"] = "ok" if " " in identity("/proc/self/comm") else identity("/proc/self/comm")
for path in paths:
    out[path] = identity(path)
    out["/proc/1/root" + path] = identity("/proc/1/root" + path)
"""


@probe("A01-system", "Password files, host keys and logs of the machine cannot be read", claim="files")
async def system(arena: Arena) -> Verdict:
    """None of them opens; or what opens there is another file, of the sandbox's own."""
    known = {path: identity(path) for path in present(_SYSTEM)}
    out, controls = await arena.attack(_IDENTIFY, paths=list(known))
    for name, inside in out.items():
        if " " in inside:
            out[name] = "the host's" if same_file(inside, known[name.removeprefix("/proc/1/root")]) else OWN
    return judge(out, controls, refused=REFUSED | {OWN}, by={OWN: "mount view"})
