"""bubblewrap, firejail and sandlock, each in a configuration that its own documentation leads to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.containment.tool import PATH, Call, Tool
from isandbox.policy import Quotas

# A virtual environment with `pip install sandlock` in it: it is no dependency of ours.
SANDLOCK = "SANDLOCK_PYTHON"


class Bubblewrap(Tool):
    """With every option that closes something, and the view that people start with: the whole host read-only, with what is
    private covered. A filter of system calls is the caller's to write and to hand over: it brings none.
    """

    name = "bubblewrap"
    offers = frozenset({"mounts", "workspace"})
    _CLOSED = (
        "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        "--clearenv", "--setenv", "PATH", PATH, "--hostname", "box",
    )  # fmt: skip
    _VIEW: tuple[str, ...] = (
        "--ro-bind",
        "/",
        "/",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/home",
        "--tmpfs",
        "/root",
        "--tmpfs",
        "/run",
    )

    def command(self, call: Call) -> list[str]:
        line = ["bwrap", *self._CLOSED, *self._VIEW]
        line += ["--dev", "/dev", "--proc", "/proc", "--chdir", "/tmp"]
        for mount in call.mounts:
            line += ["--ro-bind" if mount.mode == "ro" else "--bind", mount.source, mount.target]
        return [*line, "--", *call.argv]

    def version(self) -> str:
        return _first_line("bwrap", "--version")


class MinimalBubblewrap(Bubblewrap):
    """The same with only programs and libraries, and nothing that can be written but scratch space."""

    name = "bubblewrap, minimal"
    _VIEW = (
        "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin",
        "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache",
        "--tmpfs", "/tmp",
    )  # fmt: skip


class Firejail(Tool):
    """Without a profile, which is about one program each, and with all that the command line can close. It has no option that
    empties the environment; its limits are those of setrlimit(2) and an affinity.
    """

    name = "firejail"
    longest = 4000
    quotas = frozenset({"open_files", "file_size", "pids", "cpus"})

    def command(self, call: Call) -> list[str]:
        quotas = {
            "rlimit-nofile": call.quotas.open_files,
            "rlimit-fsize": call.quotas.size("file_size"),
            "rlimit-nproc": call.quotas.pids,
            "cpu": ",".join(map(str, _first_cpus(call.quotas) or ())) or None,
        }
        default = Quotas()
        asked = {
            "rlimit-nofile": call.quotas.open_files != default.open_files,
            "rlimit-nproc": call.quotas.pids != default.pids,
        }
        limits = [f"--{name}={value}" for name, value in quotas.items() if value is not None and asked.get(name, True)]
        return [
            "firejail", "--quiet", "--noprofile", "--seccomp", "--seccomp.block-secondary", "--protocol=unix,inet,inet6,netlink",
            "--caps.drop=all", "--nonewprivs", "--noroot", "--net=none", "--private", "--private-dev", "--private-tmp",
            "--private-cwd=/tmp", "--private-etc=alternatives,ld.so.cache,localtime,ssl", "--disable-mnt", "--ipc-namespace",
            "--restrict-namespaces", "--dbus-user=none", "--dbus-system=none", "--nogroups", "--noinput", "--nosound", "--novideo",
            "--no3d", "--machine-id", "--hostname=box", *limits, "--", *call.argv,
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
    quotas = frozenset({"memory", "pids", "open_files", "cpus"})

    def command(self, call: Call) -> list[str]:
        limits = {
            "max_memory": call.quotas.size("memory"),
            "max_processes": call.quotas.pids,
            "max_open_files": call.quotas.open_files,
            "cpu_cores": _first_cpus(call.quotas),
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


def _first_cpus(quotas: Quotas) -> list[int] | None:
    return None if quotas.cpus is None else list(range(int(quotas.cpus)))


def _first_line(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().partition("\n")[0]
