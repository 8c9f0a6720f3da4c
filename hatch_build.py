"""Build hook: compile the native helper into the package with a plain ``cc``.

Where there is no compiler (or no Linux) the package is built without it, as a pure one. The seccomp backend then says what
to install and refuses to run; the local one, which isolates nothing, runs with a weaker helper in Python and says so.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("backends/helper")
BINARY = Path("backends/isandbox_backends/_bin/isandbox-helper")
# Freestanding: no libc, no start-up code of one, and no call into one that the compiler thinks up.
FLAGS = [
    "-std=gnu11", "-O2", "-static", "-nostdlib", "-nostartfiles", "-ffreestanding", "-fno-builtin",
    "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-tree-loop-distribute-patterns", "-fno-pie", "-no-pie",
    "-Wall", "-Wextra", "-Wl,--build-id=none", "-Wl,-z,noexecstack", "-s",
]  # fmt: skip
# gcc would otherwise call into its library for atomics (and choose the instruction at run time).
MACHINE_FLAGS = {"aarch64": ["-mno-outline-atomics"]}


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        binary = root / BINARY
        if not build_helper(root, binary):
            return
        build_data["pure_python"] = False
        # The helper is a static program: it needs this architecture and a Linux kernel, no particular libc or Python.
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"
        if version != "editable":
            build_data["force_include"][str(binary)] = "isandbox_backends/_bin/isandbox-helper"


def build_helper(root: Path, binary: Path) -> bool:
    """Compile; false where that is not possible. A compiler that fails on our sources is an error, not a reason to go on."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if sys.platform != "linux" or compiler is None:
        print("isandbox: no C compiler; building without the native helper", file=sys.stderr)  # noqa: T201
        return False
    binary.parent.mkdir(parents=True, exist_ok=True)
    sources = sorted(str(path) for path in (root / SOURCES).glob("*.c"))
    fresh = binary.with_suffix(".new")
    subprocess.run([compiler, *FLAGS, *MACHINE_FLAGS.get(platform.machine(), []), "-o", str(fresh), *sources], check=True)
    fresh.replace(binary)
    return True
