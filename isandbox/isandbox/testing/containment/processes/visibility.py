"""Which processes are seen."""

from __future__ import annotations

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import REFUSED, judge
from isandbox.testing.containment.processes.attacks import host_victim
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

# More than a command with its keepers ever has, far fewer than any machine.
_MOST = 30

_SEE = r"""
def status(pid):
    return dict(line.partition(":\t")[::2] for line in content("/proc/%d/status" % pid).splitlines())

listed = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
controls["it sees itself"] = "ok" if os.getpid() in listed else "no"
out["processes in /proc"] = "ENOENT" if len(listed) < most else "%d" % len(listed)
for pid in pids:
    for name in ("", "/cmdline", "/status", "/task/%d/comm" % pid):
        out["%d%s" % (pid, name)] = attempt(os.stat, "/proc/%d%s" % (pid, name))
    out["%d: session" % pid] = attempt(os.getsid, pid)
    out["%d: priority" % pid] = attempt(os.getpriority, os.PRIO_PROCESS, pid)
    out["%d: affinity" % pid] = attempt(os.sched_getaffinity, pid)
# Numbers that answer a signal but have no process in /proc would be of somebody else; a thread's number is one.
threads = {int(task) for pid in listed for task in (os.listdir("/proc/%d/task" % pid) if os.path.isdir("/proc/%d/task" % pid) else ())}
answering = [pid for sweep in sweeps for pid in range(*sweep) if attempt(os.kill, pid, 0) not in ("ESRCH",)]
out["numbers that answer"] = "ESRCH" if set(answering) <= threads | set(listed) else "%s" % sorted(set(answering) - threads)[:9]
controls["its own number answers"] = "ok" if attempt(os.kill, os.getpid(), 0) == "ok" else "no"
"""

# Of linux/connector.h and linux/cn_proc.h: a netlink header, the connector's with index and value 1, and PROC_CN_MCAST_LISTEN.
_EVENTS = r"""
def events():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 11) as stream:
        stream.bind((0, 1))
        stream.settimeout(0.2)
        stream.send(struct.pack("=IHHII", 40, 3, 0, 0, os.getpid()) + struct.pack("=IIIIHHI", 1, 1, 0, 0, 4, 0, 1))
        os.waitpid(os.spawnv(os.P_NOWAIT, "/bin/true", ["true"]), 0)
        try:
            stream.recv(4096)
        except socket.timeout:
            raise OSError(errno.ESRCH, "nothing came") from None
out["process events"] = attempt(events)
"""


@probe("B05", "No process of the host is seen", claim="processes")
async def visibility(arena: Arena) -> Verdict:
    """/proc lists a handful of processes, none of them the host's; numbers of the host's name nobody for any call, a sweep over
    thousands of numbers finds nobody else, and the kernel's stream of process events is closed.
    """
    target = await host_victim(arena)
    sweeps = [[1, 4096], [max(4096, target.pid - 500), target.pid + 500]]
    out, controls = await arena.attack(_SEE + _EVENTS, pids=[target.pid], sweeps=sweeps, most=_MOST)
    by = {"ENOENT": "pid namespace", **dict.fromkeys(("EPROTONOSUPPORT", "ECONNREFUSED"), "net namespace")}
    return judge(out, controls, refused=REFUSED | {"EPROTONOSUPPORT", "ECONNREFUSED"}, by=by)
