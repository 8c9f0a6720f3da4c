"""Where the numbers come from: without it they mean nothing to anybody else."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from typing import Any


def facts() -> dict[str, Any]:
    """Kernel, cores, load, uid, and the versions of everything that is compared."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": [round(load, 2) for load in os.getloadavg()],
        "uid": os.geteuid(),
        "python": platform.python_version(),
        "executable": os.path.basename(os.path.realpath(sys.executable)),
        "bwrap": version("bwrap", "--version"),
        "firejail": version("firejail", "--version"),
        "cc": version("cc", "--version"),
    }


def version(program: str, option: str) -> str:
    """The first line a program says about itself, or that it is missing."""
    if shutil.which(program) is None:
        return "not installed"
    said = subprocess.run([program, option], capture_output=True, text=True, check=False).stdout
    return said.strip().partition("\n")[0] or "unknown"


def heading(facts_: dict[str, Any]) -> str:
    load = " ".join(f"{value:.2f}" for value in facts_["load"])
    busy = "\nBusy: the medians below are as much the neighbours' as ours." if facts_["load"][0] > facts_["cores"] / 2 else ""
    return (
        f"Linux {facts_['kernel']} {facts_['machine']}, {facts_['cores']} cores, load {load}, uid {facts_['uid']}, "
        f"Python {facts_['python']}\n{facts_['bwrap']}; {facts_['firejail']}; {facts_['cc']}{busy}"
    )
