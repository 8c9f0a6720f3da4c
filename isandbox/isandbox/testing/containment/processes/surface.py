"""How much of the kernel can be reached: two numbers that may only fall."""

from __future__ import annotations

from dataclasses import replace

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge, shown
from isandbox.testing.containment.processes.kernel import DANGEROUS
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

NEWEST = 469
"""The newest call of Linux 6.18, file_setattr; numbers above it are tried as well, and must be unknown."""
_BEYOND = 50

# Never issued, and counted as reachable: the larger number is the honest one. By number on x86-64 and on aarch64.
NOT_ISSUED = {
    "x86_64": {58: "vfork: the child would run on its parent's stack", 162: "sync writes out every disk of the machine"},
    "aarch64": {81: "sync writes out every disk of the machine"},
}
# Where null means "all", "off" or "wait", and might be heard if the sandbox were broken: IPC_RMID of object 0, a queue that stays,
# the host's name, accounting, a loaded crash kernel. Ids are -1, which changes none: 0 is EPERM where it is root's. A Z is 64 zero
# bytes, which are no time at all for who would wait.
OTHER_ARGUMENTS = {
    "x86_64": {
        **{number: [-1, -1, -1, -1, -1, -1] for number in (31, 66, 71, 70)},
        **{number: [-1, -1, -1] for number in (105, 106, 113, 114, 117, 119)},
        68: [1, 0],
        23: [0, 0, 0, 0, "Z"],
        270: [0, 0, 0, 0, "Z", 0],
        271: [0, 0, "Z", 0, 0],
        **{number: [-1, -1, 0, -1, -1] for number in (163, 170, 171, 246)},
    },
    "aarch64": {
        **{number: [-1, -1, -1, -1, -1, -1] for number in (195, 191, 187, 188)},
        **{number: [-1, -1, -1] for number in (143, 144, 145, 146, 147, 149)},
        186: [1, 0],
        72: [0, 0, 0, 0, "Z", 0],
        73: [0, 0, "Z", 0, 0],
        **{number: [-1, -1, 0, -1, -1] for number in (89, 161, 162, 104)},
    },
}

_COUNT = r"""
machine = os.uname().machine
unissued, others = unissued[machine], others[machine]
PAUSE, VHANGUP = (34, 153) if machine == "x86_64" else (-1, 58)
zeros = ctypes.create_string_buffer(64)
answers = {}
read, write = os.pipe()
REPLY = 200
os.dup2(write, REPLY)

def issue(number):
    "In a child of its own: descriptor 0 is closed, so that no call finds one in a null argument, and an alarm ends what waits."
    os.close(0)
    if number == VHANGUP:
        os.setsid()  # of no terminal
    signal.setitimer(signal.ITIMER_REAL, 0.3 if number == PAUSE else 20)
    arguments = [ctypes.addressof(zeros) if value == "Z" else value for value in others.get(str(number), [0] * 6)]
    words = [ctypes.c_long(value) for value in arguments]
    me = os.getpid()
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *words)
    if os.getpid() == me:
        os.write(REPLY, struct.pack("=ii", number, ctypes.get_errno() if result == -1 else 0))

def reap(block):
    child, status = os.waitpid(-1, 0 if block else os.WNOHANG)
    if child in running:
        number = running.pop(child)
        if os.WIFSIGNALED(status):
            answers.setdefault(number, "signal %d" % os.WTERMSIG(status))

running = {}
for number in range(last + 1):
    if str(number) in unissued:
        answers[number] = "not issued"
        continue
    child = os.fork()
    if child == 0:
        try:
            issue(number)
        finally:
            os._exit(0)
    running[child] = number
    while len(running) >= 16:
        reap(True)
while running:
    reap(True)
os.close(write)
os.close(REPLY)
received = b""
os.set_blocking(read, False)
while True:
    try:
        piece = os.read(read, 65536)
    except BlockingIOError:
        break
    if not piece:
        break
    received += piece
for at in range(0, len(received) // 8 * 8, 8):
    number, error = struct.unpack_from("=ii", received, at)
    answers[number] = "ok" if error == 0 else word(error)
refused = ("EPERM", "ENOSYS", "signal %d" % signal.SIGSYS)
reachable = sorted(number for number in range(last + 1) if answers.get(number, "ended") not in refused)
controls["getpid is reachable"] = "ok" if (39 if machine == "x86_64" else 172) in reachable else "no"
for number in range(newest + 1, last + 1):
    out["%d, newer than any" % number] = answers.get(number, "ended")
for name in forbidden:
    if name in NR and NR[name] <= last:
        answer = answers.get(NR[name], "ended")
        out["%s without arguments" % name] = "ENOSYS" if answer in refused[2:] else answer
controls["every number was tried"] = "ok" if len(answers) + 9 > last else "%d" % len(answers)
out["number of reachable"] = len(reachable)
"""
# Allowed with no arguments where a policy looks at the arguments: they ask for nothing.
_HARMLESS_WHEN_EMPTY = frozenset({"personality"})


@probe("B14-reachable", "The number of system calls that reach the kernel", claim="kernel", timeout=120)
async def reachable_calls(arena: Arena) -> Verdict:
    """Every number up to 50 above the newest is called with null arguments, in a process of its own. One counts as reachable
    unless it answers EPERM or ENOSYS or dies of SIGSYS: so does one that crashes, waits or ends its caller, and one that is
    never issued. Numbers above the newest must be unknown and the dangerous ones refused; the figure is the whole number.
    """
    out, controls = await arena.attack(
        _COUNT,
        timeout=90,
        last=NEWEST + _BEYOND,
        newest=NEWEST,
        unissued={machine: list(map(str, numbers)) for machine, numbers in NOT_ISSUED.items()},
        others=OTHER_ARGUMENTS,
        forbidden=sorted(set(DANGEROUS) - _HARMLESS_WHEN_EMPTY),
    )
    figures = {"reachable_system_calls": int(out.pop("number of reachable"))}
    by = {"ENOSYS": "system call filter", "EPERM": "system call filter or no privilege"}
    verdict = judge(out, controls, refused={"EPERM", "ENOSYS"}, by=by)
    return replace(verdict, figures=figures, detail=verdict.detail or shown(f"{figures}"))


FAMILIES = range(64)
_ALLOWED_FAMILIES = {1: "unix", 2: "inet", 10: "inet6", 16: "netlink"}

_SOCKETS = r"""
TYPES = {1: "stream", 2: "datagram", 3: "raw", 4: "rdm", 5: "packets", 6: "dccp", 10: "packet"}
made = 0
# What somebody says of a family that no kernel has is no news of the kernel.
nobody = attempt(lambda: os.close(os.dup(made_socket(families - 1, 1))))
for family in range(families):
    for kind, name in TYPES.items():
        answer = attempt(lambda: os.close(os.dup(made_socket(family, kind))))
        made += answer == "ok"
        # Netlink makes no difference between raw and datagram; a UNIX socket that is called raw is a datagram one.
        expected = str(family) in allowed and (kind in (1, 2, 5) or family in (1, 16))
        if not expected:
            out["family %d, %s" % (family, name)] = "EAFNOSUPPORT" if answer == nobody != "ok" else answer
controls["a UNIX socket"] = attempt(lambda: os.close(os.dup(made_socket(1, 1))))
out["number of pairs"] = made
"""
_MAKE_SOCKET = r"""
def made_socket(family, kind):
    "Closed with the object, so that at most one is open."
    global kept
    kept = socket.socket(family, kind)
    return kept.fileno()
"""


@probe("B28", "Sockets of few families and types can be made", claim="kernel")
async def socket_families(arena: Arena) -> Verdict:
    """Of all families and types only UNIX, IP and netlink sockets can be made, and none that is raw: every other family is a
    protocol of the kernel that nobody inside needs. The figure is the number of pairs that can be made.
    """
    out, controls = await arena.attack(
        _MAKE_SOCKET + _SOCKETS,
        families=len(FAMILIES),
        allowed={str(number): name for number, name in _ALLOWED_FAMILIES.items()},
    )
    figures = {"socket_pairs": int(out.pop("number of pairs"))}
    refused = {"EPERM", "EACCES", "EAFNOSUPPORT", "ESOCKTNOSUPPORT", "EPROTONOSUPPORT", "EINVAL"}
    by = {
        **dict.fromkeys(("ESOCKTNOSUPPORT", "EPROTONOSUPPORT", "EINVAL"), "no such socket"),
        "EPERM": "system call filter or no privilege",
        "EAFNOSUPPORT": "system call filter or no such family",
    }
    return replace(judge(out, controls, refused=refused, by=by), figures=figures)
