"""Attacks as small Python programs that run inside a sandbox and answer in JSON; the tests' shared tools.

Loaded by conftest.py: test directories are no packages. Nothing here is ever run outside a sandbox.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

from isandbox.testing.containment.inside import PRELUDE
from isandbox_backends._shared.helper import machine
from isandbox_backends.seccomp import filter as seccomp_filter
from isandbox_backends.seccomp.syscalls import ARCHES

# Words for "the kernel would not": an operation that fails in any other way was not refused (R8).
REFUSED = {"EPERM", "EACCES", "EROFS", "ENOENT", "ENOSYS", "ENOTDIR", "ESRCH"}


def numbers() -> dict[str, int]:
    """System call numbers of this machine's architecture."""
    return dict(ARCHES[machine()].numbers)


def run(sandbox: Any, body: str, *, timeout: float = 30, **values: Any) -> Any:
    """What ``body`` puts into ``out``. ``values`` are variables of the program; ``NR`` holds the system call numbers."""
    given = "".join(f"{name} = json.loads({json.dumps(value)!r})\n" for name, value in {**values, "NR": numbers()}.items())
    program = PRELUDE + given + body + "\nsys.stdout.write(json.dumps(out))\n"
    result = sandbox.exec(["python3", "-I", "-c", program], timeout=timeout)
    assert (result.exit_code, result.fault) == (0, None), f"the probe itself failed: {result}"
    return json.loads(result.stdout)


def allow_everything(*_: object, **__: object) -> bytes:
    """Mutant: a filter that is none."""
    return struct.pack("<HBBI", 0x06, 0, 0, seccomp_filter.RET_ALLOW)


MARK = 1000


def marked(*_: object, profile: seccomp_filter.ProfileName = "default", **__: object) -> bytes:
    """Mutant: every errno of the filter is `MARK` higher, so that its answers cannot be the kernel's own."""
    return mark(seccomp_filter.profile_program(ARCHES[machine()], profile))


def marked_word(errno: int) -> str:
    """What a program inside calls an errno that was marked: one without a name."""
    return f"E{errno + MARK}"


def mark(program: Sequence[seccomp_filter.Instruction]) -> bytes:
    """The program, each errno in it `MARK` higher."""

    def own(op: int, k: int) -> bool:
        return op == seccomp_filter.RET and k & 0xFFFF0000 == seccomp_filter.RET_ERRNO

    return seccomp_filter.pack([(op, jt, jf, k + MARK if own(op, k) else k) for op, jt, jf, k in program])
