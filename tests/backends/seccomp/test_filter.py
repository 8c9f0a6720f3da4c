"""The compiler of the seccomp filter: what any rules become, for any numbers."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox_backends.seccomp.filter import compile_filter, profile_program, program
from isandbox_backends.seccomp.profiles import PROFILE_NAMES, ProfileName
from isandbox_backends.seccomp.rules import Condition, Rule
from isandbox_backends.seccomp.syscalls import AARCH64, X86_64, Arch

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x50001, 0x50026, 0x80000000
ARCH = pytest.mark.parametrize("arch", [X86_64, AARCH64], ids=lambda arch: arch.name)
PROFILE = pytest.mark.parametrize("profile", PROFILE_NAMES)


@ARCH
@pytest.mark.parametrize("audit", [0, 0x40000003, 0xC000003E ^ 0x40000000, 0x40000028, 0xFFFFFFFF])
def test_another_architecture_is_killed(bpf: ModuleType, arch: Arch, audit: int) -> None:
    """A 32-bit call in a 64-bit process means another system call by the same number."""
    code = profile_program(arch)
    assert {bpf.run(code, number, audit)[0] for number in (*range(600), 0x40000000, 0xFFFFFFFF)} == {KILL}


def test_x32_is_not_there(bpf: ModuleType) -> None:
    """The second ABI of x86-64 shares the architecture value: its bit makes every number unknown."""
    code = profile_program(X86_64)
    assert {bpf.run(code, number | 0x40000000, X86_64.audit)[0] for number in range(600)} == {ENOSYS}


@ARCH
@pytest.mark.parametrize("number", [467, 600, 0x3FFFFFFF, 0x40000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_what_is_newer_is_not_there(bpf: ModuleType, arch: Arch, number: int) -> None:
    """Calls that nobody has looked at do not exist, and neither does -1."""
    assert bpf.run(profile_program(arch), number, arch.audit)[0] == ENOSYS


@ARCH
@PROFILE
@pytest.mark.parametrize("pinned", [False, True])
def test_the_kernel_takes_the_program(bpf: ModuleType, arch: Arch, profile: ProfileName, pinned: bool) -> None:
    """Every jump is forward, inside and 8 bits wide; the end is a return; the length fits."""
    code = profile_program(arch, profile, pin_cpus=pinned)
    assert bpf.accepted(code)
    assert len(code) < 512


@ARCH
@PROFILE
def test_paths_are_short(bpf: ModuleType, arch: Arch, profile: ProfileName) -> None:
    """A binary search, not a chain: no call runs through more than a few dozen instructions."""
    code = profile_program(arch, profile)
    longest = max(bpf.run(code, number, arch.audit)[1] for number in range(601))
    assert longest <= 40


@ARCH
def test_bytes(arch: Arch) -> None:
    """struct sock_filter: u16, u8, u8, u32 each."""
    assert list(struct.iter_unpack("<HBBI", compile_filter(arch.name))) == profile_program(arch)


@ARCH
def test_the_same_policy_gives_the_same_program(arch: Arch) -> None:
    """The compiler is a function of its arguments, so that its result may be kept."""
    assert profile_program(arch) == profile_program(arch)
    assert compile_filter(arch.name) is compile_filter(arch.name)
    assert compile_filter(arch.name, pin_cpus=True) != compile_filter(arch.name)


@ARCH
def test_pinned_cpus(bpf: ModuleType, arch: Arch) -> None:
    """Under a quota of CPUs nobody's affinity can be set; without it everybody's but the first process's."""
    number = arch.numbers["sched_setaffinity"]
    assert bpf.outcomes(profile_program(arch, pin_cpus=True), number, arch.audit) == {EPERM}
    assert bpf.run(profile_program(arch), number, arch.audit, [0])[0] == ALLOW
    pinned, free = profile_program(arch, pin_cpus=True), profile_program(arch)
    for other in (n for n in range(601) if n != number):
        assert bpf.outcomes(pinned, other, arch.audit) == bpf.outcomes(free, other, arch.audit)


WORDS = st.integers(0, (1 << 64) - 1)


@st.composite
def conditions(draw: Any) -> Condition:
    wide = draw(st.booleans())
    value = st.integers(0, (1 << (64 if wide else 32)) - 1)
    return Condition(
        arg=draw(st.integers(0, 5)),
        test=draw(st.sampled_from(["any_bit", "is_in", "not_in"])),
        values=tuple(draw(st.lists(value, min_size=1, max_size=5, unique=True))),
        mask=0xFFFFFFFF if wide else draw(st.sampled_from([0xFFFFFFFF, 0xF, 0xFF00])),
        wide=wide,
    )


RULES = st.lists(
    st.builds(Rule, errno=st.integers(1, 133), conditions=st.lists(conditions(), max_size=3).map(tuple)), max_size=4
)


def holds(condition: Condition, arguments: list[int]) -> bool:
    word = arguments[condition.arg]
    if not condition.wide:
        word &= 0xFFFFFFFF & condition.mask
    tests = {
        "any_bit": bool(word & condition.values[0]),
        "is_in": word in condition.values,
        "not_in": word not in condition.values,
    }
    return tests[condition.test]


@given(rules=RULES, words=st.lists(WORDS, min_size=6, max_size=6), pick=st.data())
def test_any_rules_compile_to_what_they_say(bpf: ModuleType, rules: list[Rule], words: list[int], pick: Any) -> None:
    """The compiler against its definition: the first rule whose conditions all hold decides, else the call is allowed."""
    values = [value for rule in rules for condition in rule.conditions for value in condition.values]
    mixed = [*values, *(value ^ 1 << 32 for value in values), *(value ^ 1 for value in values)]
    arguments = [pick.draw(st.sampled_from([word, *mixed])) for word in words]
    arch = Arch("toy", 0x1234, {"f": 3, "g": 4, "h": 5}, 10, x32=False)
    code = program(arch, forbidden=(), not_there=("g",), checked={"f": rules})
    assert bpf.accepted(code)
    denied = (0x50000 | rule.errno for rule in rules if all(holds(c, arguments) for c in rule.conditions))
    wanted = next(denied, ALLOW)
    answers = [bpf.run(code, number, 0x1234, arguments)[0] for number in (3, 4, 5, 6, 11)]
    assert answers == [wanted, ENOSYS, ALLOW, ENOSYS, ENOSYS]
    assert wanted in bpf.outcomes(code, 3, 0x1234)


@given(numbers=st.sets(st.integers(0, 60)), chance=st.data())
def test_any_numbers_are_found(bpf: ModuleType, numbers: set[int], chance: Any) -> None:
    """The search answers for each number by its own list, whatever the numbers and gaps; what has no name is not there."""
    names = {f"c{number}": number for number in numbers}
    lists: dict[str, str] = {name: chance.draw(st.sampled_from(["allow", "forbidden", "not there"])) for name in names}
    arch = Arch("toy", 7, names, 50, x32=False)
    code = program(
        arch,
        forbidden=[name for name, of in lists.items() if of == "forbidden"],
        not_there=[name for name, of in lists.items() if of == "not there"],
        checked={},
    )
    assert bpf.accepted(code)
    answer = {"allow": ALLOW, "forbidden": EPERM, "not there": ENOSYS}
    for number in range(70):
        known = number in numbers and number <= 50
        assert bpf.run(code, number, 7)[0] == (answer[lists[f"c{number}"]] if known else ENOSYS)


def test_far_jumps(bpf: ModuleType) -> None:
    """Where a half of the search is longer than 8 bits reach, an unconditional jump takes over."""
    names = {f"c{number}": number for number in range(400)}
    arch = Arch("toy", 1, names, 500, x32=False)
    rules = [Rule(13, (Condition(0, "not_in", (1, 2, 3)),))]
    code = program(arch, forbidden=(), not_there=(), checked={f"c{number}": rules for number in range(0, 400, 2)})
    assert bpf.accepted(code)
    for number in range(520):
        wanted = ENOSYS if number >= 400 else 0x5000D if number % 2 == 0 else ALLOW
        assert bpf.run(code, number, 1, [9])[0] == wanted
