"""Build the floor program, floor.c, with the helper's entry code and the helper's flags."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_FLAGS = ["-std=gnu11", "-O2", "-static", "-nostdlib", "-nostartfiles", "-ffreestanding", "-fno-stack-protector", "-fno-pie"]
_FLAGS += ["-no-pie", "-Wall", "-Wextra", "-Wl,--build-id=none", "-Wl,-z,noexecstack", "-s"]


def build_floor(directory: str) -> str | None:
    """Path of the program, ``None`` without a compiler."""
    if shutil.which("cc") is None:
        return None
    helper = _ROOT / "backends" / "helper"
    program = str(Path(directory, "floor"))
    sources = [str(_ROOT / "benchmarks" / "floor.c"), str(helper / "start.c")]
    subprocess.run(["cc", *_FLAGS, f"-I{helper}", "-o", program, *sources], check=True)
    return program
