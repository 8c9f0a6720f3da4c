"""Many processes at once, and how they are scheduled."""

from __future__ import annotations

from isandbox.policy import Quotas
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.processes.attacks import TOLD_APART, host_victim, judge_by_process
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_QUOTA = 48
# Three times the quota and no more: whoever is not held stops by itself.
_TRIED = 160

_BOMB = r"""
import resource, threading
signal.alarm(25)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def crowd(make):
    "How many could be made before one was refused; they all end when the pipe is closed."
    read, write = os.pipe()
    made, refusal = 0, "ok"
    for _ in range(tried):
        try:
            make(read, write)
        except OSError as error:
            refusal = word(error.errno)
            break
        except RuntimeError:
            refusal = "EAGAIN"  # can't start new thread
            break
        made += 1
    return made, refusal, read, write

def waiting(read, write):
    if os.fork() == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)

def dead(read, write):
    if os.fork() == 0:
        os._exit(0)

def thread(read, write):
    threading.Thread(target=os.read, args=(read, 1), daemon=True).start()

def reap():
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass

def branching():
    "A bomb of processes that all fork: each writes a byte for every child that it gets."
    read, write = os.pipe()
    first = os.fork()
    if first == 0:
        signal.alarm(10)
        end = time.monotonic() + 0.5
        for _ in range(7):
            try:
                if os.fork():
                    os.write(write, b"x")
            except OSError:
                pass
        time.sleep(max(0, end - time.monotonic()))
        os._exit(0)
    os.close(write)
    count = 0
    while True:
        piece = os.read(read, 65536)
        if not piece:
            break
        count += len(piece)
    os.close(read)
    reap()
    return count

controls["one process"] = in_child(lambda: "ok")
for name, make in (("waiting", waiting), ("dead", dead)):
    made, refusal, read, write = crowd(make)
    os.close(write)
    os.close(read)
    reap()
    out["%s processes" % name] = refusal
    out["number of %s" % name] = made
out["number of branching"] = branching()
made, refusal, read, write = crowd(thread)
os.write(write, b"x" * made)
out["threads"], out["number of threads"] = refusal, made
"""


@probe("B22", "A fork bomb ends at its quota, and its neighbours go on", claim="quotas.pids", timeout=90)
async def fork_bomb(arena: Arena) -> Verdict:
    """Processes that wait, processes that are dead but not waited for, processes that all fork, and threads: of each no more than
    the quota exist at a time, the sandbox is usable afterwards and another one starts meanwhile.
    """
    box = await arena.create(quotas=Quotas(pids=_QUOTA))
    out, controls = await arena.attack(_BOMB, box=box, tried=_TRIED)
    numbers = {name[10:]: int(out.pop(name)) for name in list(out) if name.startswith("number of ")}
    for name in ("waiting", "dead", "threads"):
        if numbers[name] >= _QUOTA:
            out[f"more than {_QUOTA} {name}"] = str(numbers[name])
    controls["some were allowed"] = "ok" if numbers["waiting"] > 1 else "none"
    for name, where in (("the same sandbox", box), ("another one", await arena.create())):
        after = await where.exec("echo usable", timeout=20)
        out[name] = "EAGAIN" if after.stdout == "usable\n" else f"not usable: exit {after.exit_code}"
    verdict = judge(out, controls, refused={"EAGAIN"}, by={"EAGAIN": "quota of processes"}, stopped="CONTAINED")
    found = ", ".join(f"{number} {name}" for name, number in numbers.items())
    return Verdict(verdict.outcome, verdict.mechanism, f"{found}; {verdict.detail}", verdict.figures)


_SCHEDULE = (
    TOLD_APART
    + r"""
def attributes(policy, nice=0, priority=0, runtime=0):
    return struct.pack("=IIQiIQQQ", 48, policy, 0, nice, priority, runtime, runtime, runtime)

FIFO, RR, BATCH, IDLE, DEADLINE = 1, 2, 3, 5, 6
controls["batch"] = attempt(os.sched_setscheduler, 0, BATCH, os.sched_param(0))
os.sched_setscheduler(0, 0, os.sched_param(0))
controls["nicer"] = attempt(os.setpriority, os.PRIO_PROCESS, 0, 1)
out["less nice"] = attempt(os.setpriority, os.PRIO_PROCESS, 0, 0)
out["nice -20"] = attempt(os.setpriority, os.PRIO_PROCESS, 0, -20)
for name, policy in (("FIFO", FIFO), ("RR", RR)):
    out[name] = attempt(os.sched_setscheduler, 0, policy, os.sched_param(1))
    out[name + " by sched_setattr"] = call(NR["sched_setattr"], 0, attributes(policy, priority=1), 0)
out["DEADLINE"] = call(NR["sched_setattr"], 0, attributes(DEADLINE, runtime=10000000), 0)
out["nice by sched_setattr"] = call(NR["sched_setattr"], 0, attributes(0, nice=-20), 0)
out["real-time input and output"] = call(NR["ioprio_set"], 1, 0, 1 << 13)
for pid in pids:
    out["nice of %d" % pid] = on(pid, lambda pid: attempt(os.setpriority, os.PRIO_PROCESS, pid, 19))
    out["affinity of %d" % pid] = on(pid, lambda pid: attempt(os.sched_setaffinity, pid, {0}))
    out["scheduler of %d" % pid] = on(pid, lambda pid: attempt(os.sched_setscheduler, pid, IDLE, os.sched_param(0)))
    out["input and output of %d" % pid] = on(pid, lambda pid: call(NR["ioprio_set"], 1, pid, 3 << 13))
    out["limits of %d" % pid] = on(pid, lambda pid: call(NR["prlimit64"], pid, 4, struct.pack("QQ", 0, 0), None))
"""
)


@probe("B23", "No priority can be gained, and nobody else's taken", claim="privileges")
async def scheduling(arena: Arena) -> Verdict:
    """Real-time and deadline scheduling, better priorities and real-time input and output are refused; a process of the host
    keeps its priority, CPUs and limits.
    """
    target = await host_victim(arena)
    before = target.harm().priority
    out, controls = await arena.attack(_SCHEDULE, pids=[target.pid])
    verdict = judge_by_process(out, controls, by={"EPERM": "no privilege", "EACCES": "no privilege"})
    if target.harm().priority != before:
        return Verdict("LEAK", detail="the priority of a process of the host was changed")
    return verdict
