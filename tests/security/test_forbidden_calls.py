"""System calls that lead out of a sandbox or deep into the kernel: refused, by the filter, and seen to work without it."""

from __future__ import annotations

from typing import Any

import pytest

from isandbox.sync import create_sandbox
from isandbox_backends._shared.plan import Sysctl
from isandbox_backends.seccomp import backend, layers, rules

pytestmark = pytest.mark.native

# name -> arguments that harm nothing even where the call is allowed
CALLS: dict[str, list[Any]] = {
    "mount": ["none", "/nowhere", "tmpfs", 0, 0],
    "umount2": ["/nowhere", 0],
    "pivot_root": ["/nowhere", "/nowhere"],
    "chroot": ["/nowhere"],
    "open_tree": [-100, "/nowhere", 1],
    "move_mount": [-1, "nowhere", -1, "nowhere", 0],
    "fsopen": ["nosuchfs", 0],
    "fsconfig": [-1, 0, 0, 0, 0],
    "fsmount": [-1, 0, 0],
    "fspick": [-100, "/nowhere", 0],
    "mount_setattr": [-100, "/nowhere", 0, 0, 0],
    "statmount": [0, 0, 0, 0],
    "listmount": [0, 0, 0, 0],
    "unshare": [0x10000000],
    "setns": [-1, 0],
    "clone3": [0, 0],
    "ptrace": [0, 0, 0, 0],
    "process_vm_readv": ["PID", 0, 0, 0, 0, 0],
    "process_vm_writev": ["PID", 0, 0, 0, 0, 0],
    "process_madvise": [-1, 0, 0, 0, 0],
    "kcmp": ["PID", "PID", 0, 0, 0],
    "pidfd_getfd": [-1, 0, 0],
    "keyctl": [0, -3, 0, 0, 0],
    "add_key": ["user", "isandbox-probe", "x", 1, -1],
    "request_key": ["user", "isandbox-nothing", 0, 0],
    "bpf": [0, 0, 0],
    "perf_event_open": [0, 0, -1, -1, 0],
    "userfaultfd": [0xFFFF],
    "io_uring_setup": [0, 0],
    "io_uring_enter": [-1, 0, 0, 0, 0, 0],
    "io_uring_register": [-1, 0, 0, 0],
    "open_by_handle_at": [-1, 0, 0],
    "name_to_handle_at": [-100, "/nowhere", 0, 0, 0],
    "kexec_load": [0, 0, 0, -1],
    "kexec_file_load": [-1, -1, 0, 0, -1],
    "reboot": [0, 0, 0, 0],
    "init_module": [0, 0, 0],
    "finit_module": [-1, 0, 0],
    "delete_module": ["isandbox-nothing", 0],
    "swapon": ["/nowhere", 0],
    "swapoff": ["/nowhere"],
    "acct": ["/nowhere"],
    "quotactl": [-1, 0, 0, 0],
    "quotactl_fd": [-1, 0, 0, 0],
    "syslog": [9, 0, 0],
    "iopl": [0],
    "ioperm": [0, 0, 0],
    "modify_ldt": [0, 0, 0],
    "personality": [0x0040000],
    "fanotify_init": [-1, 0],
    "vhangup": [],
    "sethostname": ["x", -1],
    "setdomainname": ["x", -1],
    "settimeofday": [0, 0],
    "clock_settime": [-1, 0],
    "adjtimex": [0],
    "clock_adjtime": [-1, 0],
    "mbind": [0, 0, 0, 0, 0, 0],
    "set_mempolicy": [0, 0, 0],
    "get_mempolicy": [0, 0, 0, 0, 0],
    "set_mempolicy_home_node": [0, 0, 0, 1],
    "migrate_pages": [-1, 0, 0, 0],
    "move_pages": [0, 0, 0, 0, 0, 0],
    "vmsplice": [-1, 0, 0, 0],
    "memfd_secret": [-1],
    "openat2": [-100, "/nowhere", 0, 0],
    "lsm_set_self_attr": [0, 0, 0, 0],
    "uselib": ["/nowhere"],
    "ustat": [0, 0],
    "sysfs": [3],
    "_sysctl": [0],
    "lookup_dcookie": [0, 0, 0],
    "nfsservctl": [0, 0, 0],
    "create_module": [0, 0],
    "get_kernel_syms": [0],
    "query_module": [0, 0, 0, 0, 0],
    "process_mrelease": [-1, 0],
    "cachestat": [-1, 0, 0, 0],
    "remap_file_pages": [0, 0, 0, 0, 0],
}  # fmt: skip

NOT_THERE = {
    "io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "open_tree", "move_mount", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "statmount", "listmount", "memfd_secret", "openat2", "lsm_set_self_attr",
    "cachestat", "remap_file_pages",
}  # fmt: skip

# Where the kernel itself answers otherwise when the filter is off, whatever this process may do.
REACHES_THE_KERNEL = {
    "mount", "chroot", "unshare", "setns", "clone3", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd",
    "keyctl", "add_key", "personality", "openat2", "vmsplice", "name_to_handle_at", "io_uring_enter",
    "process_mrelease", "cachestat", "remap_file_pages",
}  # fmt: skip

PROBE = """
def argument(value):
    return os.getpid() if value == "PID" else value.encode() if isinstance(value, str) else value

for name, arguments in CALLS.items():
    if name in NR:
        out[name] = in_child(lambda: call(NR[name], *map(argument, arguments)))
"""

Verdicts = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def verdicts(probes: Any, sandbox_tmp: Any) -> Verdicts:
    """What each call answers: with the filter, with a filter whose errnos are marked, and with none."""
    found = {}
    for mode, compile_filter in (("real", None), ("marked", probes.marked), ("open", probes.allow_everything)):
        with pytest.MonkeyPatch.context() as patch:
            if compile_filter is not None:
                patch.setattr(backend, "compile_filter", compile_filter)
                patch.setattr(backend, "verified", layers.told)  # they are meant to start
            with create_sandbox("seccomp") as sandbox:
                found[mode] = probes.run(sandbox, PROBE, CALLS=CALLS)
    return found


def test_every_call_that_the_filter_names_is_tried(probes: Any, verdicts: Verdicts) -> None:
    """No name of the filter's lists is left without an attack: here, or as a call that is checked by its arguments."""
    refused = {*rules.FORBIDDEN, *rules.NOT_THERE}
    assert refused == set(CALLS) - {"personality"}
    assert set(verdicts["real"]) == set(CALLS) & set(probes.numbers())


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_call_is_refused_by_the_filter(probes: Any, verdicts: Verdicts, name: str) -> None:
    """The call ends with its declared errno, and it is the filter that says so: a marked filter gives the marked errno."""
    if name not in probes.numbers():
        pytest.skip("not a call of this architecture")
    errno = 38 if name in NOT_THERE else 1
    assert verdicts["real"][name] == ("ENOSYS" if name in NOT_THERE else "EPERM")
    assert verdicts["marked"][name] == probes.marked_word(errno)


@pytest.mark.parametrize("name", sorted(REACHES_THE_KERNEL))
def test_without_the_filter_the_call_gets_through(verdicts: Verdicts, name: str) -> None:
    """The attack is one: with the filter off the kernel itself answers, with success or another errno."""
    assert verdicts["open"][name] not in ("EPERM", verdicts["real"][name])


CLONE = """
flags = {"NEWTIME": 0x80, "NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000, "NEWIPC": 0x8000000,
         "NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000}

def clone(flag):
    child = libc.syscall(ctypes.c_long(NR["clone"]), ctypes.c_long(flag | 17), None, None, None, None)
    if child == 0:
        os._exit(0)
    if child < 0:
        return word(ctypes.get_errno())
    os.waitpid(child, 0)
    return "ok"

out = {name: in_child(lambda: clone(flag)) for name, flag in flags.items()}
out["NEWUSER high"] = in_child(lambda: clone(0x10000000 | 1 << 32))
out["plain"] = clone(0)
"""


def test_no_namespace_can_be_made_with_clone(make: Any, probes: Any) -> None:
    """clone with any namespace flag is refused, also with bits above the 32 that the kernel reads; a plain clone works."""
    found = probes.run(make(), CLONE)
    assert found.pop("plain") == "ok"
    assert set(found.values()) == {"EPERM"}
    # Without the filter the limit of the sandbox's own user namespace refuses; without both it works.
    assert probes.run(make(filter=probes.allow_everything), CLONE)["NEWUSER"] == "ENOSPC"
    bare = make(filter=probes.allow_everything, edit=lambda plan: [r for r in plan if not isinstance(r, Sysctl)])
    assert probes.run(bare, CLONE)["NEWUSER"] == "ok"


NUMBERS = """
out["between"] = sorted({call(number) for number in (337, 350, 400, 423)})
out["newest"] = sorted({call(number) for number in (467, 468, 500, 1000, 100000, 0x3fffffff)})
out["x32"] = sorted({call(0x40000000 | number) for number in (0, 1, 39, 101, 165, 520, 545)})
out["negative"] = call(-1)
out["control"] = call(39 if os.uname().machine == "x86_64" else 172)
"""


def test_numbers_past_the_newest_do_not_exist(make: Any, probes: Any) -> None:
    """Numbers newer than the filter or without a call, of the x32 ABI and negative ones answer ENOSYS, by the filter."""
    found = probes.run(make(), NUMBERS)
    assert found == {"between": ["ENOSYS"], "newest": ["ENOSYS"], "x32": ["ENOSYS"], "negative": "ENOSYS", "control": "ok"}
    mark = [probes.marked_word(38)]
    found = probes.run(make(filter=probes.marked), NUMBERS)
    assert (found["between"], found["newest"], found["control"]) == (mark, mark, "ok")
    if "open" in probes.numbers():  # x86-64
        assert found["x32"] == mark


PERSONALITY = """
out["allowed"] = [in_child(lambda: call(NR["personality"], value)) for value in (0xffffffff, 0, 8, 0x20000)]
out["refused"] = [in_child(lambda: call(NR["personality"], value)) for value in (0x40000, 0x400000, 0x100000, 3, 1 << 32 | 0x40000)]
"""


def test_personality_only_as_programs_need_it(make: Any, probes: Any) -> None:
    """personality asks and sets harmless values, nothing that weakens memory protection."""
    found = probes.run(make(), PERSONALITY)
    assert set(found["allowed"]) == {"ok"}
    assert set(found["refused"]) == {"EPERM"}
    assert "ok" in probes.run(make(filter=probes.allow_everything), PERSONALITY)["refused"]
