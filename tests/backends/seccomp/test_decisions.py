"""What the default filter does with every number and, where they count, every interesting argument, on both architectures.

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

from isandbox_backends.seccomp.filter import default_program
from isandbox_backends.seccomp.rules import CHECKED, FORBIDDEN, FORBIDDEN_WHEN_PINNED, NOT_THERE
from isandbox_backends.seccomp.syscalls import AARCH64, ARCHES, X86_64, Arch

WORDS = {
    0x7FFF0000: "allow",
    0x50001: "EPERM",
    0x50026: "ENOSYS",
    0x5005D: "EPROTONOSUPPORT",
    0x50061: "EAFNOSUPPORT",
    0x80000000: "killed",
}
PROGRAMS = {arch.name: default_program(arch) for arch in ARCHES.values()}
ARCH = pytest.mark.parametrize("arch", [X86_64, AARCH64], ids=lambda arch: arch.name)
CHECKED_CALLS = [(arch, name) for arch in ARCHES.values() for name in CHECKED if name in arch.numbers]


def table(arch: Arch) -> Path:
    return Path(__file__).with_name(f"decisions_{arch.name}.txt")


def decisions(bpf: ModuleType, arch: Arch) -> Iterator[str]:
    """``number name answers``, one a line; numbers without a name as ranges, up to past the newest name."""
    names = {number: name for name, number in arch.numbers.items()}
    nameless: list[int] = []
    for number in range(max(names) + 32):
        found = bpf.outcomes(PROGRAMS[arch.name], number, arch.audit)
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
def test_every_number_is_decided_as_reviewed(bpf: ModuleType, arch: Arch) -> None:
    """What may come of each number, of any arguments, is what the table says that was looked at by a person."""
    assert list(decisions(bpf, arch)) == table(arch).read_text().splitlines()


@ARCH
def test_every_number_is_what_its_name_says(bpf: ModuleType, arch: Arch) -> None:
    """From the lists of names, independently of the search: and what has no name, or came later, does not exist."""
    names = {number: name for name, number in arch.numbers.items()}
    for number in (*range(1100), *(1 << bit for bit in range(11, 32))):
        found = {WORDS[action] for action in bpf.outcomes(PROGRAMS[arch.name], number, arch.audit)}
        name = names.get(number)
        if name is None or number > arch.newest or name in NOT_THERE:
            assert found == {"ENOSYS"}, number
        elif name in FORBIDDEN:
            assert found == {"EPERM"}, number
        elif name in CHECKED:
            assert "allow" in found, number
            assert len(found) > 1, number
        else:
            assert found == {"allow"}, number


def test_every_name_of_the_lists_is_known_somewhere() -> None:
    """A typo in a name would silently forbid nothing."""
    names = {*FORBIDDEN, *FORBIDDEN_WHEN_PINNED, *NOT_THERE, *CHECKED}
    assert names <= set(X86_64.numbers) | set(AARCH64.numbers)


def test_no_name_is_in_two_lists() -> None:
    """The last list would win, and nobody would see it. Only what is pinned may be checked otherwise."""
    names = [*FORBIDDEN, *NOT_THERE, *CHECKED]
    assert len(names) == len(set(names))


@ARCH
def test_a_number_has_one_name(arch: Arch) -> None:
    """The tables are complete up to the newest and unambiguous."""
    numbers = sorted(arch.numbers.values())
    assert len(set(numbers)) == len(numbers)
    holes = set(range(numbers[-1])) - set(numbers)
    assert holes == ({*range(337, 424)} if arch is X86_64 else {*range(244, 260), *range(295, 424)})


@pytest.mark.parametrize(("arch", "name"), CHECKED_CALLS, ids=lambda value: getattr(value, "name", value))
def test_arguments(bpf: ModuleType, vectors: ModuleType, arch: Arch, name: str) -> None:
    """For boundary values with anything in the word that the kernel does not read, the answer follows from what it reads."""
    wanted, arguments = vectors.CALLS[name]
    number, code = arch.numbers[name], PROGRAMS[arch.name]
    seen = set()
    for words in arguments():
        answer = WORDS[bpf.run(code, number, arch.audit, words)[0]]
        assert answer == wanted(*words), (name, [hex(word) for word in words])
        seen.add(answer)
    assert seen == {WORDS[action] for action in bpf.outcomes(code, number, arch.audit)}, "an answer is never reached"


@ARCH
@given(number=st.integers(0, 520), arguments=st.lists(st.integers(0, (1 << 64) - 1), min_size=6, max_size=6))
def test_high_words_matter_only_for_pointers(bpf: ModuleType, arch: Arch, number: int, arguments: list[int]) -> None:
    """All that is checked is 32 bits wide to the kernel but the pointer of prlimit64: the upper half is no way around."""
    code = PROGRAMS[arch.name]
    pointers = {2} if number == arch.numbers["prlimit64"] else set()
    low = [word if index in pointers else word & 0xFFFFFFFF for index, word in enumerate(arguments)]
    assert bpf.run(code, number, arch.audit, arguments) == bpf.run(code, number, arch.audit, low)


@ARCH
@pytest.mark.parametrize("name", sorted({"read", "mmap", "futex", "clone", "execve", "seccomp", "openat", "wait4", "kill"}))
def test_what_programs_live_on_is_allowed(bpf: ModuleType, arch: Arch, name: str) -> None:
    """The calls of every program are allowed as programs use them: a thread, a file, a child."""
    usual = {"clone": [0x3D0F00], "openat": [0, 0, 0o2101, 0o644]}.get(name, [])
    assert bpf.run(PROGRAMS[arch.name], arch.numbers[name], arch.audit, usual)[0] == 0x7FFF0000


@ARCH
def test_a_child_that_shares_memory_can_be_made(bpf: ModuleType, arch: Arch) -> None:
    """clone with CLONE_VM and CLONE_VFORK is allowed: posix_spawn uses it, and so does the helper under its own filter."""
    assert bpf.run(PROGRAMS[arch.name], arch.numbers["clone"], arch.audit, [0x4111])[0] == 0x7FFF0000


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
        table(each).write_text("".join(f"{line}\n" for line in decisions(simulator, each)))
