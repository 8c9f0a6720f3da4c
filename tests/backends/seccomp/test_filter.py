"""The seccomp filter, instruction by instruction, for every number and both architectures."""

from __future__ import annotations

import importlib.util
import re
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox_backends.seccomp import filter as filter_module
from isandbox_backends.seccomp.filter import Check, compile_filter, default_program, program
from isandbox_backends.seccomp.syscalls import AARCH64, ARCHES, X86_64, Arch


def load_simulator() -> ModuleType:
    """The module beside this one: tests are no package."""
    spec = importlib.util.spec_from_file_location("isandbox_test_bpf", Path(__file__).with_name("bpf.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bpf = load_simulator()

ALLOW, EPERM, ENOSYS, EAFNOSUPPORT, KILL = 0x7FFF0000, 0x50001, 0x50026, 0x50061, 0x80000000
PROGRAMS = {arch.name: default_program(arch) for arch in ARCHES.values()}
ARCH = pytest.mark.parametrize("arch", [X86_64, AARCH64], ids=lambda arch: arch.name)


def action(arch: Arch, call: str | int, *arguments: int) -> int:
    number = arch.numbers[call] if isinstance(call, str) else call
    result: int = bpf.run(PROGRAMS[arch.name], number, arch.audit, arguments)[0]
    return result


def expected(arch: Arch, number: int) -> set[int]:
    """From the names, independently of the search tree; a checked call may be allowed or denied by its zeroes."""
    names = {name for name, known in arch.numbers.items() if known == number}
    if number > arch.newest:
        return {ENOSYS}
    if names & set(filter_module._FORBIDDEN):
        return {EPERM}
    if names & set(filter_module._NOT_THERE):
        return {ENOSYS}
    if "personality" in names or "prlimit64" in names or not names & set(filter_module._CHECKED):
        return {ALLOW}
    return {EAFNOSUPPORT} if "socket" in names else {ALLOW}


@ARCH
def test_every_number(arch: Arch) -> None:
    """With all arguments zero each number from 0 to 600 is what its name says."""
    wrong = [number for number in range(601) if action(arch, number) not in expected(arch, number)]
    assert wrong == []


@ARCH
def test_every_name_of_the_lists_is_known_somewhere(arch: Arch) -> None:
    """A typo in a name would silently forbid nothing."""
    names = {*filter_module._FORBIDDEN, *filter_module._NOT_THERE, *filter_module._CHECKED, "sched_setaffinity"}
    assert names <= set(X86_64.numbers) | set(AARCH64.numbers)
    assert set(arch.numbers) <= names
    assert len(set(arch.numbers.values())) == len(arch.numbers)


def test_no_name_is_in_two_lists() -> None:
    """The last list would win, and nobody would see it."""
    lists = [filter_module._FORBIDDEN, filter_module._NOT_THERE, tuple(filter_module._CHECKED)]
    names = [name for part in lists for name in part]
    assert len(names) == len(set(names))


@ARCH
@pytest.mark.parametrize("audit", [0, 0x40000003, 0xC000003E ^ 0x40000000, 0xFFFFFFFF])
def test_another_architecture_is_killed(arch: Arch, audit: int) -> None:
    """A 32-bit call in a 64-bit process means another system call by the same number."""
    for number in (0, 1, 59, 500, 0xFFFFFFFF):
        assert bpf.run(PROGRAMS[arch.name], number, audit)[0] == KILL


@pytest.mark.parametrize("number", [0, 1, 2, 56, 101, 165, 512, 520, 547])
def test_x32_is_not_there(number: int) -> None:
    """The second ABI of x86-64 shares the architecture value: its bit makes every number unknown."""
    assert action(X86_64, number | 0x40000000) == ENOSYS


@ARCH
@pytest.mark.parametrize("number", [467, 600, 0x3FFFFFFF, 0x40000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_what_is_newer_is_not_there(arch: Arch, number: int) -> None:
    """Calls that nobody has looked at do not exist, and neither does -1."""
    assert action(arch, number) == ENOSYS


HIGH = 1 << 32
NEW_NAMESPACES = [0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
CHECKS: list[tuple[str, tuple[int, ...], int]] = [
    ("clone", (0x11,), ALLOW),
    ("clone", (0x3D0F00,), ALLOW),  # what pthread_create asks for
    *(("clone", (flag | 0x11,), EPERM) for flag in NEW_NAMESPACES),
    *(("clone", (flag | HIGH,), EPERM) for flag in NEW_NAMESPACES),
    ("clone", (HIGH | 0x11,), ALLOW),
    ("socket", (1, 1, 0), ALLOW),
    ("socket", (2, 1, 6), ALLOW),
    ("socket", (10, 0x80802, 0), ALLOW),
    ("socket", (16, 3, 0), ALLOW),  # NETLINK_ROUTE, raw, as getaddrinfo opens it
    ("socket", (16, 0x80003, HIGH), ALLOW),
    *(("socket", (16, 3, protocol), EAFNOSUPPORT) for protocol in (2, 4, 9, 12, 15, 16, 20, HIGH | 12)),
    ("socket", (16 | HIGH, 3, 12), EAFNOSUPPORT),
    *(("socket", (family, 1, 0), EAFNOSUPPORT) for family in (0, 3, 4, 17, 21, 29, 31, 38, 40, 44, 45, HIGH | 17)),
    *(("socket", (family, kind, 0), EPERM) for family in (1, 2, 10) for kind in (3, 10, 0x13, 0x80003, 0x803, HIGH | 3)),
    ("socket", (2 | HIGH, 3, 0), EPERM),
    ("socketpair", (1, 1, 0), ALLOW),
    ("socketpair", (1, 5, 0), ALLOW),
    *(("socketpair", (1, kind, 0), EPERM) for kind in (2, 3, 0x80002, 0x802, HIGH | 2)),
    ("ioctl", (0, 0x5401), ALLOW),
    *(("ioctl", (0, request), EPERM) for request in (0x5412, 0x541C, 0x541D, 0x5423, HIGH | 0x5412, (1 << 63) | 0x541C)),
    ("ioctl", (0x5412, 0x5413), ALLOW),
    *(("personality", (persona,), ALLOW) for persona in (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)),
    *(("personality", (persona,), EPERM) for persona in (0x40000, 0x100000, 0x400000, 1, HIGH | 0x40000)),
    ("prlimit64", (0, 7), ALLOW),
    *(("prlimit64", (pid, 7), EPERM) for pid in (1, 2, 0xFFFFFFFF, HIGH | 1)),
    *((name, (0, mode), ALLOW) for name in ("chmod", "fchmod", "creat", "mknod") for mode in (0, 0o777, 0o1777)),
    *((name, (0, mode), EPERM) for name in ("chmod", "fchmod", "creat", "mknod") for mode in (0o4755, 0o2755, 0o6000, HIGH | 0o4000)),
    *((name, (0, 0, mode), ALLOW) for name in ("fchmodat", "fchmodat2", "open", "mknodat") for mode in (0, 0o777, 0o1777)),
    *((name, (0, 0, mode), EPERM) for name in ("fchmodat", "fchmodat2", "open", "mknodat") for mode in (0o4755, 0o2000, HIGH | 0o4000)),
    ("openat", (0, 0, 0o6000, 0o644), ALLOW),
    ("openat", (0, 0, 0, 0o4755), EPERM),
    ("openat", (0, 0, 0, HIGH | 0o2755), EPERM),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arch", "call", "arguments", "wanted"),
    [(arch, *row) for arch in ARCHES.values() for row in CHECKS if row[0] in arch.numbers],
    ids=lambda value: value.name if isinstance(value, Arch) else str(value),
)
def test_arguments(arch: Arch, call: str, arguments: tuple[int, ...], wanted: int) -> None:
    """Each check looks at the word that the kernel looks at: bits above it change nothing, neither way."""
    assert action(arch, call, *arguments) == wanted


@ARCH
@given(number=st.integers(0, 466), arguments=st.lists(st.integers(0, (1 << 64) - 1), min_size=6, max_size=6))
def test_high_words_never_matter(arch: Arch, number: int, arguments: list[int]) -> None:
    """Everything that is checked is 32 bits wide to the kernel, so that the upper half is no way around a check."""
    assert action(arch, number, *arguments) == action(arch, number, *(argument & 0xFFFFFFFF for argument in arguments))


@ARCH
def test_the_kernel_takes_the_program(arch: Arch) -> None:
    """Every jump is forward, inside and 8 bits wide; the end is a return; the length fits."""
    bpf.check(PROGRAMS[arch.name])
    assert len(PROGRAMS[arch.name]) < 1024


@ARCH
def test_paths_are_short(arch: Arch) -> None:
    """A binary search, not a chain: no call runs through more than a few dozen instructions."""
    longest = max(bpf.run(PROGRAMS[arch.name], number, arch.audit)[1] for number in range(601))
    assert longest <= 40


@ARCH
def test_bytes(arch: Arch) -> None:
    """struct sock_filter: u16, u8, u8, u32 each."""
    raw = compile_filter(arch.name)
    assert list(struct.iter_unpack("<HBBI", raw)) == PROGRAMS[arch.name]


CHECK = st.builds(
    Check,
    arg=st.integers(0, 5),
    test=st.sampled_from(["any_bit", "is_in", "not_in"]),
    values=st.lists(st.integers(1, 0xFFFFFFFF), min_size=1, max_size=5, unique=True).map(tuple),
    errno=st.integers(1, 133),
    mask=st.sampled_from([0xFFFFFFFF, 0xF, 0xFF00]),
)


def denied(check: Check, arguments: list[int]) -> bool:
    word = arguments[check.arg] & 0xFFFFFFFF & check.mask
    tests = {"any_bit": bool(word & check.values[0]), "is_in": word in check.values, "not_in": word not in check.values}
    return tests[check.test]


@given(
    checks=st.lists(CHECK, max_size=4), words=st.lists(st.integers(0, (1 << 64) - 1), min_size=6, max_size=6), pick=st.data()
)
def test_any_checks_compile_to_what_they_say(checks: list[Check], words: list[int], pick: Any) -> None:
    """The compiler against its definition: the first check that denies decides, else the call is allowed."""
    values = [value for check in checks for value in check.values]
    arguments = [pick.draw(st.sampled_from([word, *values])) for word in words]
    arch = Arch("toy", 0x1234, {"f": 3, "g": 4}, 10, x32=False)
    code = program(arch, forbidden=(), not_there=("g",), checked={"f": checks})
    bpf.check(code)
    wanted = next((0x50000 | check.errno for check in checks if denied(check, arguments)), ALLOW)
    assert bpf.run(code, 3, 0x1234, arguments)[0] == wanted
    assert bpf.run(code, 4, 0x1234, arguments)[0] == ENOSYS
    assert bpf.run(code, 5, 0x1234, arguments)[0] == ALLOW


def test_far_jumps() -> None:
    """Where a half of the search is longer than 8 bits reach, an unconditional jump takes over."""
    names = {f"c{number}": number for number in range(0, 400, 2)}
    arch = Arch("toy", 1, names, 500, x32=False)
    checks = {name: [Check(0, "not_in", (1, 2, 3), 13)] for name in names}
    code = program(arch, forbidden=(), not_there=(), checked=checks)
    bpf.check(code)
    for number in range(520):
        wanted = ENOSYS if number > 500 else 0x5000D if number < 400 and number % 2 == 0 else ALLOW
        assert bpf.run(code, number, 1, [9])[0] == wanted


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@ARCH
def test_numbers_are_the_kernels(arch: Arch) -> None:
    """Where this machine's kernel headers know the name, the number is theirs."""
    header = HEADERS[arch.name]
    if not header.exists():
        pytest.skip(f"no kernel headers: {header} is missing")
    theirs = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", header.read_text())}
    common = set(arch.numbers) & set(theirs)
    assert len(common) > 60
    assert {name: arch.numbers[name] for name in common} == {name: theirs[name] for name in common}
    listed = {*filter_module._FORBIDDEN, *filter_module._NOT_THERE, *filter_module._CHECKED, "sched_setaffinity"}
    assert not (listed & set(theirs)) - set(arch.numbers), "the kernel has a call by a listed name that the table has not"
