"""bubblewrap, firejail and sandlock, each in a configuration that its own documentation leads to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.containment.tool import PATH, Call, Tool

# A virtual environment with `pip install sandlock` in it: it is no dependency of ours.
SANDLOCK = "SANDLOCK_PYTHON"


class Bubblewrap(Tool):
    """As people put it before a command: the whole host read-only, with what is private covered."""

    name = "bubblewrap"
    offers = frozenset({"mounts", "workspace"})
    _VIEW = ("--ro-bind", "/", "/", "--tmpfs", "/tmp", "--tmpfs", "/home", "--tmpfs", "/root", "--tmpfs", "/run")

    def command(self, call: Call) -> list[str]:
        line = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", *self._VIEW]
        line += ["--dev", "/dev", "--proc", "/proc", "--chdir", "/tmp"]
        for mount in call.mounts:
            line += ["--ro-bind" if mount.mode == "ro" else "--bind", mount.source, mount.target]
        return [*line, "--", *call.argv]

    def version(self) -> str:
        return _first_line("bwrap", "--version")


class MinimalBubblewrap(Bubblewrap):
    """Only programs and libraries, an empty environment, and nothing that can be written but scratch space."""

    name = "bubblewrap, minimal"
    _VIEW = (
        "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin",
        "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache",
        "--tmpfs", "/tmp", "--cap-drop", "ALL", "--disable-userns", "--unshare-user", "--clearenv", "--setenv", "PATH", PATH,
    )  # fmt: skip


class Firejail(Tool):
    """Without a profile, which is about one program each, and with all that the command line can close."""

    name = "firejail"
    longest = 4000

    def command(self, call: Call) -> list[str]:
        return [
            "firejail", "--quiet", "--noprofile", "--seccomp", "--caps.drop=all", "--nonewprivs", "--noroot", "--net=none",
            "--private", "--private-dev", "--private-tmp", "--private-cwd=/tmp", "--disable-mnt", "--ipc-namespace", "--restrict-namespaces",
            "--nodbus", "--nogroups", "--noinput", "--nosound", "--novideo", "--hostname=box", "--", *call.argv,
        ]  # fmt: skip

    def version(self) -> str:
        return _first_line("firejail", "--version")

    def missing(self) -> str | None:
        if (missing := super().missing()) is not None:
            return missing
        said = subprocess.run(self.command(Call(["true"], 1, "/")), capture_output=True, text=True, check=False)
        return said.stderr.strip() or f"exit {said.returncode}" if said.returncode else None


class Sandlock(Tool):
    """Its Python interface, with the paths of its own example, and in place of /tmp a directory of the box's own."""

    name = "sandlock"
    quotas = frozenset({"memory", "pids", "open_files"})

    def command(self, call: Call) -> list[str]:
        limits = {
            "max_memory": call.quotas.size("memory"),
            "max_processes": call.quotas.pids,
            "max_open_files": call.quotas.open_files,
        }
        request = {"argv": list(call.argv), "timeout": call.timeout, "directory": call.directory, "limits": limits}
        return [
            os.environ.get(SANDLOCK, sys.executable),
            str(Path(__file__).with_name("sandlock_run.py")),
            json.dumps(request),
        ]

    def version(self) -> str:
        return "sandlock " + _first_line(
            os.environ.get(SANDLOCK, sys.executable), "-c", "import sandlock; print(sandlock.__version__)"
        )

    def described(self) -> str:
        return "`Sandbox(...)` as in `benchmarks/containment/sandlock_run.py`"

    def missing(self) -> str | None:
        python = os.environ.get(SANDLOCK, sys.executable)
        found = subprocess.run([python, "-c", "import sandlock"], capture_output=True, check=False).returncode == 0
        return None if found else f"sandlock is not installed; set {SANDLOCK} to the interpreter of an environment that has it"


TOOLS: tuple[Tool, ...] = (Bubblewrap(), MinimalBubblewrap(), Firejail(), Sandlock())


def _first_line(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().partition("\n")[0]
