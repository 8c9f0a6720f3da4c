"""The simulator against the kernel: the very program is loaded, by the helper, and calls are made under it.

All of it happens inside sandboxes. A second sandbox has the same filter with each errno a thousand higher, which no kernel
answers by itself: so it is seen whether a filter or the kernel has answered, whatever the kernel says to the arguments.
"""

from __future__ import annotations

import json
import platform
import random
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from isandbox_backends._shared.helper import machine
from isandbox_backends.seccomp import filter as seccomp_filter
from isandbox_backends.seccomp.profiles import PROFILES, ProfileName
from isandbox_backends.seccomp.rules import CHECKED, FORBIDDEN, NOT_THERE
from isandbox_backends.seccomp.syscalls import ARCHES

pytestmark = pytest.mark.native

ARCH = ARCHES[machine()]
NAMES = {number: name for name, number in ARCH.numbers.items()}
ALL_BITS = (1 << 64) - 1
HIGH = 0xDEADBEEF << 32

# Never issued, whatever the arguments.
NOT_ISSUED = {
    "exit": "ends the prober",
    "exit_group": "ends the prober",
    "rt_sigreturn": "takes registers from the stack: ends the prober",
    "vfork": "the child would run on the prober's stack",
    "pause": "waits for a signal",
    "sync": "writes out all disks of the machine",
    "uretprobe": "the kernel does not ask filters about it, and kills who calls it",
    "uprobe": "as uretprobe",
}
# Not with all arguments zero, or zero in the words that are read: they would wait for ever.
WAITS = {"select", "pselect6", "ppoll", "msgrcv"}

PROBER = r"""
import ctypes, errno, json, os, select, signal, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
REPLY = 300

def issue(number, words):
    ctypes.set_errno(0)
    me = os.getpid()
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_ulong(word) for word in words])
    if os.getpid() != me:
        os._exit(0)
    failed = ctypes.get_errno() if result == -1 else 0
    if not failed and number in OPENERS:
        os.close(result)
    return failed

def answers(number, vectors):
    "What each call answered; -n for death by signal n, -1000 for one that did not end."
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, REPLY)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        for words in vectors:
            os.write(REPLY, struct.pack("<i", issue(number, words)))
        os._exit(0)
    os.close(write)
    got, end = b"", time.monotonic() + 30
    while True:
        ready = select.select([read], [], [], max(0, end - time.monotonic()))[0]
        piece = os.read(read, 65536) if ready else b""
        if not piece:
            break
        got += piece
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.close(read)
    status = os.waitpid(child, 0)[1]
    found = [value for value, in struct.iter_unpack("<i", got[: len(got) // 4 * 4])]
    if len(found) < len(vectors):
        found.append(-os.WTERMSIG(status) if ready and os.WIFSIGNALED(status) else -1000)
    return found

calls = json.load(sys.stdin)
OPENERS = set(calls.pop(0))
json.dump([answers(number, vectors) for number, vectors in calls], sys.stdout)
"""

Calls = list[tuple[int, list[tuple[int, ...]]]]
MARK = 1000


class Answers(NamedTuple):
    """What the calls answer under a program, and under the same one with its errnos marked."""

    real: list[list[int]]
    marked: list[list[int]]


def plain_vectors(name: str) -> list[tuple[int, ...]]:
    """For a call about which nothing is known: null pointers and descriptor -1; nothing readable, nothing to be done."""
    vectors = [(ALL_BITS,) * 6]
    return vectors if name in WAITS else [*vectors, (0,) * 6, (HIGH,) * 6]


def every_call(vectors: ModuleType, profile: ProfileName = "default") -> Calls:
    """Every number that may be issued, with its vectors."""
    calls: Calls = []
    interesting = vectors.calls_of(profile)
    for number in range(ARCH.newest + 200):
        name = NAMES.get(number, "")
        if name in PROFILES[profile].checked:
            arguments = list(interesting[name][1]())
            # Creating a socket of each allowed kind once more adds nothing but time.
            calls.append((number, arguments if name != "socket" else arguments[::7]))
        elif name not in NOT_ISSUED:
            calls.append((number, plain_vectors(name)))
    for number in (0, 1, 2, 41, 101, 165, 272, 512, 520, 547):
        calls += [(number | 0x40000000, [(0,) * 6]), (number | 0x40000000 | 1 << 32, [(0,) * 6])]
    calls += [(number, [(ALL_BITS,) * 6]) for number in (*(1 << bit for bit in range(10, 32)), 0xFFFFFFFF, ALL_BITS)]
    # The kernel reads 32 bits of the number too.
    calls += [(number | 1 << 32, [(ALL_BITS,) * 6]) for number, name in NAMES.items() if name in FORBIDDEN]
    return calls


def ask(sandbox: Any, calls: Calls) -> list[list[int]]:
    openers = [ARCH.numbers[name] for name in ("socket", "fcntl", "open", "openat", "creat") if name in ARCH.numbers]
    result = sandbox.exec(["python3", "-I", "-c", PROBER], input=json.dumps([openers, *calls]), max_output=1 << 24, timeout=90)
    assert (result.exit_code, result.fault) == (0, None), result.stderr
    found: list[list[int]] = json.loads(result.stdout)
    assert len(found) == len(calls)
    return found


def differences(bpf: Any, code: Any, calls: Calls, answered: Answers) -> list[str]:
    """Calls for which the simulator of ``code`` and the kernel do not agree."""
    found = []
    for (number, vectors), answers, marks in zip(calls, answered.real, answered.marked, strict=True):
        for at, words in enumerate(vectors):
            action = bpf.run(code, number, ARCH.audit, words)[0]
            errno = action & 0xFFFF if action != seccomp_filter.RET_ALLOW else 0
            answer, of_filter = (answers[at : at + 1] or [-1000])[0], (marks[at : at + 1] or [-1000])[0]
            same = (answer, of_filter) == (errno, errno + MARK) if errno else 0 <= of_filter < MARK and answer >= 0
            if not same:
                found.append(
                    f"{NAMES.get(number & 0xFFFFFFFF, number)} {[hex(word) for word in words]}: {answer}, {of_filter}"
                )
    return found


def under(make: Any, probes: Any, code: Any, calls: Calls) -> Answers:
    assert probes.MARK == MARK
    real = ask(make(filter=lambda *_, **__: seccomp_filter.pack(code)), calls)
    return Answers(real, ask(make(filter=lambda *_, **__: probes.mark(code)), calls))


@pytest.mark.parametrize("case", [("default", False), ("default", True), ("debug", False), ("strict", False)], ids=str)
def test_the_kernel_decides_as_the_simulator(
    make: Any, probes: Any, bpf: Any, vectors: Any, case: tuple[ProfileName, bool]
) -> None:
    """Every number and every interesting argument gets from the kernel, under the loaded program, what the simulator says."""
    profile, pinned = case
    code = seccomp_filter.profile_program(ARCH, profile, pin_cpus=pinned)
    calls = every_call(vectors, profile)
    assert len({number for number, _ in calls}) > 600
    answered = under(make, probes, code, calls)
    assert differences(bpf, code, calls, answered) == []


def altered(what: str) -> Any:
    code = seccomp_filter.profile_program(ARCH)
    ptrace = ARCH.numbers["ptrace"]
    if what == "a call let through":
        lists = tuple(name for name in FORBIDDEN if name != "ptrace")
        return seccomp_filter.program(ARCH, forbidden=lists, not_there=NOT_THERE, checked=CHECKED)
    if what == "a number off by one":
        return [(op, jt, jf, k + (op == seccomp_filter.JGE and k == ptrace)) for op, jt, jf, k in code]
    if what == "a high word compared":
        at = next(i for i, (op, _, _, k) in enumerate(code) if op == seccomp_filter.JEQ and k == 0x5412)
        return [(op, jt, jf, k + 4 if i == at - 1 else k) for i, (op, jt, jf, k) in enumerate(code)]
    assert what == "another errno"
    return [(op, jt, jf, 0x5000D if (op, k) == (seccomp_filter.RET, 0x50061) else k) for op, jt, jf, k in code]


@pytest.mark.parametrize(
    "alteration",
    [
        ("a call let through", {"ptrace"}),
        ("a number off by one", {"ptrace"}),
        ("a high word compared", {"ioctl"}),
        ("another errno", {"socket", "socketpair"}),
    ],
)
def test_a_filter_that_is_not_the_simulated_one_is_noticed(
    make: Any, probes: Any, bpf: Any, vectors: Any, alteration: tuple[str, set[str]]
) -> None:
    """The comparison above sees a difference, and where it is."""
    what, where = alteration
    wanted = {"ptrace", "ioctl", "socket", "socketpair", "getpid", "mount"}
    calls = [call for call in every_call(vectors) if NAMES.get(call[0]) in wanted]
    answered = under(make, probes, altered(what), calls)
    found = differences(bpf, seccomp_filter.profile_program(ARCH), calls, answered)
    assert {line.split()[0] for line in found} == where


def test_a_simulator_that_is_wrong_is_noticed(
    make: Any, probes: Any, bpf: Any, vectors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison sees a simulator that reads one instruction otherwise than the kernel."""
    code = seccomp_filter.profile_program(ARCH)
    calls = [call for call in every_call(vectors) if NAMES.get(call[0]) in CHECKED]
    answered = under(make, probes, code, calls)
    assert differences(bpf, code, calls, answered) == []
    for opcode, wrong in ((0x15, lambda a, k: a != k), (0x45, lambda a, k: a & k == k)):
        with monkeypatch.context() as patch:
            patch.setitem(bpf._TESTS, opcode, wrong)
            assert differences(bpf, code, calls, answered)


INT80 = r"""
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20; int 0x80; ret: getpid by the 32-bit table
enter = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
out["entry"] = in_child(lambda: enter() > 0)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the 32-bit entry is x86-64's")
def test_the_32_bit_entry_is_simulated_too(make: Any, probes: Any, bpf: Any) -> None:
    """A call by int 0x80 is killed by the kernel, as the simulator says of the other architecture's value."""
    assert bpf.run(seccomp_filter.profile_program(ARCH), 20, 0x40000003)[0] == seccomp_filter.RET_KILL_PROCESS
    assert probes.run(make(), INT80) == {"entry": "signal 31"}
    control = probes.run(make(filter=probes.allow_everything), INT80)["entry"]
    if control == "signal 11":
        pytest.skip("this kernel has no 32-bit entry")
    assert control == "True"


# A program is checked before the kernel asks whether the other threads can follow; one of them cannot, so none is ever in force.
LOADER = r"""
import ctypes, json, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]

def load(code, flags):
    ctypes.set_errno(0)
    program = Program(len(code) // 8 & 0xffff, code)
    result = libc.syscall(ctypes.c_long(SECCOMP), ctypes.c_long(1), ctypes.c_long(flags), ctypes.byref(program))
    return 0 if result == 0 else ctypes.get_errno() if result == -1 else 10000 + result

SECCOMP, programs = json.load(sys.stdin)
loaded, done = threading.Event(), threading.Event()

def diverge():
    assert load(bytes.fromhex("060000000000ff7f"), 0) == 0
    loaded.set()
    done.wait(60)

other = threading.Thread(target=diverge)
other.start()
assert loaded.wait(10)
TSYNC, TSYNC_ESRCH = 1, 16
json.dump([load(bytes.fromhex(code), TSYNC | TSYNC_ESRCH) for code in programs], sys.stdout)
done.set()
other.join(10)
"""
ESRCH, EINVAL = 3, 22
OPCODES = (
    0x20, 0x06, 0x54, 0x05, 0x15, 0x35, 0x45, 0x25, 0x00, 0x28, 0x30, 0x40, 0x80, 0x16, 0x07, 0x87, 0x60, 0x02, 0x84,
    0x0C, 0x34, 0xFF, 0x0115,
)  # fmt: skip
SMALL = [
    (0x20, 0, 0, 4), (0x15, 1, 0, ARCH.audit), (0x06, 0, 0, 0), (0x54, 0, 0, 15), (0x05, 0, 0, 0), (0x06, 0, 0, 0x7FFF0000),
]  # fmt: skip


def spoiled_programs() -> list[list[tuple[int, int, int, int]]]:
    """The filter and small programs with one field of one instruction changed, cut short, or empty; the same ones every time."""
    chance = random.Random(20261130)  # noqa: S311 - not a secret
    whole = seccomp_filter.profile_program(ARCH)
    programs = [whole, SMALL, [], SMALL[:-1], whole[:-1], [SMALL[-1]] * 4096, [SMALL[-1]] * 4097]
    values = [0, 1, 2, 3, 4, 5, 60, 63, 64, 68, 255, 256, 0x7FFFFFFF, 0xFFFFFFFF]
    for _ in range(3000):
        code = list(chance.choice((SMALL, SMALL, whole[:4] + whole[-8:], whole)))
        for _ in range(chance.choice((1, 1, 2))):
            at = chance.randrange(len(code))
            op, jt, jf, k = code[at]
            near = [len(code) - at - 2, len(code) - at - 1, len(code) - at]
            pick = chance.randrange(4)
            code[at] = (
                chance.choice(OPCODES) if pick == 0 else op,
                chance.choice([*values[:6], 255, *near]) & 255 if pick == 1 else jt,
                chance.choice([*values[:6], 255, *near]) & 255 if pick == 2 else jf,
                chance.choice([*values, *near]) & 0xFFFFFFFF if pick == 3 else k,
            )
        programs.append(code)
    return programs


def test_the_kernel_refuses_what_the_simulator_refuses(box: Any, bpf: Any) -> None:
    """Of programs made of the opcodes that the filter uses the kernel takes exactly those that the simulator takes; of others
    the simulator takes none.
    """
    programs = spoiled_programs()
    given = json.dumps([ARCH.numbers["seccomp"], [seccomp_filter.pack(code).hex() for code in programs]])
    result = box.exec(["python3", "-I", "-c", LOADER], input=given, max_output=1 << 20, timeout=60)
    assert (result.exit_code, result.fault) == (0, None), result.stderr
    answers = json.loads(result.stdout)
    assert set(answers) == {ESRCH, EINVAL}
    used = {bpf.LOAD, bpf.RET, bpf.AND, bpf.JUMP, *bpf._TESTS}
    wrong = []
    for code, answer in zip(programs, answers, strict=True):
        exact = {op for op, *_ in code} <= used
        if bpf.accepted(code) != (answer == ESRCH) and (exact or bpf.accepted(code)):
            wrong.append((len(code), answer, code[-8:]))
    assert wrong == []
    assert 300 < answers.count(ESRCH) < len(answers) - 300
