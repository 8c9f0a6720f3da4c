"""What /proc shows of the host's processes and paths."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import REFUSED, judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_LINKS = """
def seen(text):
    "Whether a link's text is a place in here, or no path at all."
    return not text.startswith("/") or text.startswith("/memfd:") or os.path.lexists(text)

own = "/proc/self/root" + os.path.realpath(sys.executable)
controls["its own root"] = opened(own)
controls["its own cwd"] = "ok" if os.readlink("/proc/self/cwd") == os.getcwd() else os.readlink("/proc/self/cwd")
pids = [pid for pid in os.listdir("/proc") if pid.isdigit()]
for pid in ["self", "thread-self"] + pids:
    for link in ("root", "cwd", "exe"):
        name = "/proc/%s/%s" % (pid, link)
        try:
            text = os.readlink(name)
        except OSError as error:
            out[name] = word(error.errno)
            continue
        out[name] = "seen" if seen(text) else text
    out["/proc/%s/root" % pid + canary] = opened("/proc/%s/root" % pid + canary)
    for up in ("cwd", "root"):
        out["/proc/%s/%s/../../.." % (pid, up)] = opened("/proc/%s/%s/../../..%s" % (pid, up, canary))
try:
    for name in os.listdir("/proc/self/map_files"):
        text = os.readlink("/proc/self/map_files/" + name)
        out["map_files/" + name] = "seen" if seen(text) else text
except OSError as error:
    out["map_files"] = word(error.errno)
"""


@probe("A03", "Links of /proc lead nowhere but into the sandbox", claim="files")
async def links(arena: Arena) -> Verdict:
    """Roots, working directories, programs and mapped files of every process that is listed: each link is refused, or names
    what there is inside; a file of the host does not open through any.
    """
    path, _ = arena.plant("canary")
    out, controls = await arena.attack(_LINKS, canary=str(path))
    return judge(out, controls, refused=REFUSED | {"seen"}, by={"seen": "mount view"})


_OF_OTHERS = """
own = content("/proc/self/environ")
controls["its own environment"] = "ok" if own and "=" in own else own
controls["its own memory"] = opened("/proc/self/mem")
pids = [pid for pid in os.listdir("/proc") if pid.isdigit()]
controls["itself"] = "ok" if str(os.getpid()) in pids else "not listed"
for pid in pids + [str(host), str(supervisor), str(os.getppid()), "1"]:
    for name in ("environ", "cmdline", "auxv", "maps", "stack", "syscall", "io", "stat", "comm"):
        sys.stdout.write(content("/proc/%s/%s" % (pid, name)))
    try:
        for fd in os.listdir("/proc/%s/fd" % pid):
            target = os.readlink("/proc/%s/fd/%s" % (pid, fd))
            sys.stdout.write(target)
            if target.startswith("/"):  # what is read from a pipe is taken from somebody
                sys.stdout.write(content("/proc/%s/fd/%s" % (pid, fd), 4096))
    except OSError:
        pass
out["listed"] = "ESRCH" if comm not in [content("/proc/%s/comm" % pid).strip() for pid in pids] else "listed"
for name in ("environ", "mem", "maps", "fd", "root", "cwd"):
    word_ = opened("/proc/%s/%s" % (host, name))
    out[name] = word_ if content("/proc/%s/comm" % host).strip() == comm else "ENOENT"
"""


@probe("A04", "Environment, arguments and memory of the host's processes are not read", claim="processes")
async def of_others(arena: Arena) -> Verdict:
    """A process of the host with a secret in its arguments, its environment and an open file is not among those that are
    listed, and its secret is in no file of /proc; nor is the one that runs the sandbox.
    """
    path, _ = arena.plant("open")
    comm = f"c{secrets.token_hex(6)}"
    victim = _victim(arena, comm, arena.canaries.new(), path)
    out, controls = await arena.attack(_OF_OTHERS, host=victim.pid, supervisor=os.getpid(), comm=comm)
    return judge(out, controls, by={"ESRCH": "pid namespace", "ENOENT": "pid namespace"})


def _victim(arena: Arena, comm: str, canary: str, opened: os.PathLike[str]) -> subprocess.Popen[bytes]:
    """A process of the host that waits for the end of its input, which comes with the probe's."""
    code = "import sys; open('/proc/self/comm', 'w').write(sys.argv[2]); print(flush=True); sys.stdin.read()"
    with open(opened, "rb") as file:
        victim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code, canary, comm],
            env={"CANARY": canary}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[file.fileno()],
            process_group=0,  # a Ctrl-C is for the audit
        )  # fmt: skip
    arena.stack.callback(_end, victim)
    assert victim.stdout is not None
    victim.stdout.readline()
    return victim


def _end(victim: subprocess.Popen[bytes]) -> None:
    victim.kill()
    with victim:
        pass


_INHERITED = """
controls["a variable"] = "ok" if os.environ.get("PATH") else "it has no PATH"
for name in names:
    out[name] = "inherited" if name in os.environ else "ENOENT"
for pid in ("self", "1", str(os.getppid())):
    sys.stdout.write(content("/proc/%s/environ" % pid))
"""
_NAMES = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "LD_PRELOAD_OF_A_TEST", "PYTHONSTARTUP")


@probe("A04-inherited", "The host's environment is not inherited", claim="environment")
async def inherited(arena: Arena) -> Verdict:
    """Variables that are set in the process that makes the sandbox are not set inside, nor read from what keeps the command."""
    arena.stack.callback(restore, {name: os.environ.get(name) for name in _NAMES})
    os.environ.update({name: arena.canaries.new() for name in _NAMES})
    out, controls = await arena.attack(_INHERITED, names=list(_NAMES))
    return judge(out, controls, by={"ENOENT": "an environment of its own"})


def restore(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
