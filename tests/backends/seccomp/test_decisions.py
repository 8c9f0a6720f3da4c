"""What the filter does with every number and, where they count, every interesting argument, by profile and architecture.

The tables beside this file are the reviewed policy: number, name, and all that the filter may answer. After a change of the
policy that is meant, ``python tests/backends/seccomp/test_decisions.py`` writes them anew; read the difference before it is
committed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox_backends.seccomp.filter import profile_program
from isandbox_backends.seccomp.profiles import PROFILE_NAMES, PROFILES, ProfileName
from isandbox_backends.seccomp.rules import CHECKED, FORBIDDEN, FORBIDDEN_WHEN_PINNED, NOT_THERE
from isandbox_backends.seccomp.syscalls import AARCH64, ARCHES, X86_64, Arch

WORDS = {
    0x7FFF0000: "allow",
    0x50001: "EPERM",
    0x50016: "EINVAL",
    0x50019: "ENOTTY",
    0x50026: "ENOSYS",
    0x5005D: "EPROTONOSUPPORT",
    0x5005F: "EOPNOTSUPP",
    0x50061: "EAFNOSUPPORT",
    0x80000000: "killed",
}
PROGRAMS = {(arch.name, profile): profile_program(arch, profile) for arch in ARCHES.values() for profile in PROFILE_NAMES}
ARCH = pytest.mark.parametrize("arch", [X86_64, AARCH64], ids=lambda arch: arch.name)
PROFILE = pytest.mark.parametrize("profile", PROFILE_NAMES)
CHECKED_CALLS = [
    (arch, profile, name)
    for arch in ARCHES.values()
    for profile in PROFILE_NAMES
    for name in PROFILES[profile].checked
    if name in arch.numbers
]


def table(arch: Arch, profile: ProfileName) -> Path:
    return Path(__file__).with_name(f"decisions_{profile}_{arch.name}.txt")


def decisions(bpf: ModuleType, arch: Arch, profile: ProfileName) -> Iterator[str]:
    """``number name answers``, one a line; numbers without a name as ranges, up to past the newest name."""
    names = {number: name for name, number in arch.numbers.items()}
    nameless: list[int] = []
    for number in range(max(names) + 32):
        found = bpf.outcomes(PROGRAMS[arch.name, profile], number, arch.audit)
        answers = "|".join(sorted(WORDS[action] for action in found))
        if number not in names:
            assert answers == "ENOSYS"
            nameless.append(number)
            continue
        if nameless:
            yield f"{nameless[0]}-{nameless[-1]} - ENOSYS"
            nameless = []
        yield f"{number} {names[number]} {answers}"
    yield f"{nameless[0]}- - ENOSYS"


@ARCH
@PROFILE
def test_every_number_is_decided_as_reviewed(bpf: ModuleType, arch: Arch, profile: ProfileName) -> None:
    """What may come of each number, of any arguments, is what the table says that was looked at by a person."""
    assert list(decisions(bpf, arch, profile)) == table(arch, profile).read_text().splitlines()


@ARCH
@PROFILE
def test_every_number_is_what_its_name_says(bpf: ModuleType, arch: Arch, profile: ProfileName) -> None:
    """From the lists of names, independently of the search: and what has no name, or came later, does not exist."""
    policy = PROFILES[profile]
    names = {number: name for name, number in arch.numbers.items()}
    for number in (*range(1100), *(1 << bit for bit in range(11, 32))):
        found = {WORDS[action] for action in bpf.outcomes(PROGRAMS[arch.name, profile], number, arch.audit)}
        name = names.get(number)
        if name is None or number > arch.newest or name in policy.not_there:
            assert found == {"ENOSYS"}, number
        elif name in policy.forbidden:
            assert found == {"EPERM"}, number
        elif name in policy.checked and policy.checked[name][0].conditions:
            assert "allow" in found, number
            assert len(found) > 1, number
        elif name in policy.checked:
            assert found == {WORDS[0x50000 | policy.checked[name][0].errno]}, number
        elif policy.only is not None and name not in policy.only:
            assert found == {"ENOSYS"}, number
        else:
            assert found == {"allow"}, number


@PROFILE
def test_every_name_of_the_lists_is_known_somewhere(profile: ProfileName) -> None:
    """A typo in a name would silently forbid or allow nothing."""
    policy = PROFILES[profile]
    names = {*policy.forbidden, *FORBIDDEN_WHEN_PINNED, *policy.not_there, *policy.checked, *(policy.only or ())}
    assert names <= set(X86_64.numbers) | set(AARCH64.numbers)


@PROFILE
def test_no_name_is_in_two_lists(profile: ProfileName) -> None:
    """The last list would win, and nobody would see it. Only what is pinned may be checked otherwise."""
    policy = PROFILES[profile]
    names = [*policy.forbidden, *policy.not_there, *policy.checked]
    assert len(names) == len(set(names))
    assert not set(policy.only or ()) & {*policy.forbidden, *policy.not_there}


@ARCH
def test_the_profiles_are_ordered(bpf: ModuleType, arch: Arch) -> None:
    """`strict` allows less than `default`, by name and by answer; `debug` allows the same and four calls more or wider."""
    allowed = {profile: reachable(bpf, arch, profile) for profile in PROFILE_NAMES}
    assert allowed["strict"] < allowed["default"] < allowed["debug"]
    assert allowed["debug"] - allowed["default"] == {"ptrace", "process_vm_readv"}
    same = {name for name in arch.numbers if PROFILES["debug"].checked.get(name) == CHECKED.get(name)}
    assert set(arch.numbers) - same == {"ptrace", "personality"}


def reachable(bpf: ModuleType, arch: Arch, profile: ProfileName) -> set[str]:
    program = PROGRAMS[arch.name, profile]
    return {name for name, number in arch.numbers.items() if 0x7FFF0000 in bpf.outcomes(program, number, arch.audit)}


# By any arguments. Docker's default profile of 2026-06 names 361 without a condition (moby/profiles, seccomp/default.json).
MOST = {
    ("x86_64", "default"): 302,
    ("x86_64", "debug"): 304,
    ("x86_64", "strict"): 169,
    ("aarch64", "default"): 254,
    ("aarch64", "debug"): 256,
    ("aarch64", "strict"): 137,
}


@ARCH
@PROFILE
def test_the_reachable_calls_may_only_become_fewer(bpf: ModuleType, arch: Arch, profile: ProfileName) -> None:
    """The number of calls that get through with some arguments does not grow; the figure in the documentation is this one."""
    count = len(reachable(bpf, arch, profile))
    assert count == MOST[arch.name, profile]
    page = Path(__file__).parents[3] / "docs" / "threat-model.md"
    row = next(line for line in page.read_text().splitlines() if line.startswith(f"| `{profile}` |"))
    assert f" {count} " in row


HELPER = Path(__file__).parents[3] / "backends" / "helper"
# Files whose code runs under the filter; what a process without namespaces does alone needs no filter's consent.
UNDER_THE_FILTER = ("command", "execute", "keeper", "serve", "sweep", "watch", "procs", "fileops", "limits", "base")


@ARCH
@PROFILE
def test_the_helper_can_work_under_every_profile(bpf: ModuleType, arch: Arch, profile: ProfileName) -> None:
    """Every call that the helper makes once it is confined is allowed to it."""
    source = "".join((HELPER / f"{name}.c").read_text() for name in UNDER_THE_FILTER)
    calls = {*re.findall(r"\bSYS0? \((\w+)", source), "clone", "exit"}
    assert {"execve", "setresuid", "signalfd4", "waitid"} <= calls
    # What proves the layers asks for things that must be refused as well.
    proofs = "".join(path.read_text() for path in HELPER.glob("verify*.c"))
    calls |= {*re.findall(r"\bSYS0? \((\w+)", proofs)} - {*FORBIDDEN, *NOT_THERE, "socket"}
    # It lets tracees go, which there are none of where nobody may ask to be traced.
    not_needed = set() if profile == "debug" else {"ptrace"}
    assert {name for name in calls if name in arch.numbers} - not_needed <= reachable(bpf, arch, profile)


@ARCH
def test_a_number_has_one_name(arch: Arch) -> None:
    """The tables are complete up to the newest and unambiguous."""
    numbers = sorted(arch.numbers.values())
    assert len(set(numbers)) == len(numbers)
    holes = set(range(numbers[-1])) - set(numbers)
    assert holes == ({*range(337, 424)} if arch is X86_64 else {*range(244, 260), *range(295, 424)})


@pytest.mark.parametrize(("arch", "profile", "name"), CHECKED_CALLS, ids=lambda value: getattr(value, "name", value))
def test_arguments(bpf: ModuleType, vectors: ModuleType, arch: Arch, profile: ProfileName, name: str) -> None:
    """For boundary values with anything in the word that the kernel does not read, the answer follows from what it reads."""
    wanted, arguments = vectors.calls_of(profile)[name]
    number, code = arch.numbers[name], PROGRAMS[arch.name, profile]
    seen = set()
    for words in arguments():
        answer = WORDS[bpf.run(code, number, arch.audit, words)[0]]
        assert answer == wanted(*words), (name, [hex(word) for word in words])
        seen.add(answer)
    assert seen == {WORDS[action] for action in bpf.outcomes(code, number, arch.audit)}, "an answer is never reached"


@ARCH
@PROFILE
@given(number=st.integers(0, 520), arguments=st.lists(st.integers(0, (1 << 64) - 1), min_size=6, max_size=6))
def test_high_words_matter_only_where_the_kernel_reads_them(
    bpf: ModuleType, arch: Arch, profile: ProfileName, number: int, arguments: list[int]
) -> None:
    """All that is checked is 32 bits wide to the kernel but prlimit64's pointer and ptrace's request: no way around above."""
    code = PROGRAMS[arch.name, profile]
    pointers = {arch.numbers["prlimit64"]: {2}, arch.numbers["ptrace"]: {0}}.get(number, set())
    low = [word if index in pointers else word & 0xFFFFFFFF for index, word in enumerate(arguments)]
    assert bpf.run(code, number, arch.audit, arguments) == bpf.run(code, number, arch.audit, low)


@ARCH
@PROFILE
@pytest.mark.parametrize("name", sorted({"read", "mmap", "futex", "clone", "execve", "fcntl", "openat", "wait4", "kill"}))
def test_what_programs_live_on_is_allowed(bpf: ModuleType, arch: Arch, profile: ProfileName, name: str) -> None:
    """The calls of every program are allowed as programs use them: a thread, a file, a child."""
    usual = {"clone": [0x3D0F00], "openat": [0, 0, 0o2101, 0o644]}.get(name, [])
    assert bpf.run(PROGRAMS[arch.name, profile], arch.numbers[name], arch.audit, usual)[0] == 0x7FFF0000


@ARCH
@PROFILE
def test_a_child_that_shares_memory_can_be_made(bpf: ModuleType, arch: Arch, profile: ProfileName) -> None:
    """clone with CLONE_VM and CLONE_VFORK is allowed: posix_spawn uses it, and so does the helper under its own filter."""
    assert bpf.run(PROGRAMS[arch.name, profile], arch.numbers["clone"], arch.audit, [0x4111])[0] == 0x7FFF0000


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
# Names that asm-generic gives to 32-bit architectures, or that are no calls.
NO_CALLS = {"arch_specific_syscall", "syscalls", "fstatat", "sync_file_range2"}


@ARCH
def test_numbers_are_the_kernels(arch: Arch) -> None:
    """Every call of this machine's kernel headers is in the table, by its number, and no number of theirs has another name."""
    header = HEADERS[arch.name]
    if not header.exists():
        pytest.skip(f"no kernel headers: {header} is missing")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", header.read_text())
    theirs = {name: int(number) for name, number in found if name not in NO_CALLS and not name.endswith("_time64")}
    theirs = {name: number for name, number in theirs.items() if number not in range(403, 424) and number <= 469}
    assert len(theirs) > 250
    assert {name: arch.numbers.get(name) for name in theirs} == theirs


if __name__ == "__main__":  # write the tables anew
    sys.path.insert(0, str(Path(__file__).parent))
    import bpf as simulator

    for each in ARCHES.values():
        for kind in PROFILE_NAMES:
            table(each, kind).write_text("".join(f"{line}\n" for line in decisions(simulator, each, kind)))
