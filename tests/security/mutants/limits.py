"""Mutants of limits, of the control groups and of ending what has to end."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from isandbox_mutants.frame import Edit, Mutant, change, drop

from isandbox_backends._shared import limits
from isandbox_backends._shared.helper import HelperProgram
from isandbox_backends._shared.holding import Holding
from isandbox_backends._shared.plan import Affinity, ModeRecord, Rlimit, Sysctl, Tmpfs

_RLIMITS = {
    "core dumps": limits.RLIMIT_CORE,
    "nice": limits.RLIMIT_NICE,
    "real time": limits.RLIMIT_RTPRIO,
    "open files": limits.RLIMIT_NOFILE,
    "file size": limits.RLIMIT_FSIZE,
    "CPU time": limits.RLIMIT_CPU,
    "data": limits.RLIMIT_DATA,
}
# As root a control group holds memory.
_WHO: Mapping[str, Literal["user"]] = {"data": "user"}


def _no_limit(resource: int) -> Edit:
    return drop(Rlimit, resource=resource)


def _no_groups(_: Any) -> Any:
    return lambda *_args, **_options: Holding(why="mutant")


LIMITS = (
    *(
        Mutant(f"no limit on {name}", (_no_limit(resource),), who=_WHO.get(name, "both"))
        for name, resource in _RLIMITS.items()
    ),
    Mutant("no limit on processes", (change(ModeRecord, {"pids": 0}),)),
    Mutant("no memory for the watcher to hold", (change(ModeRecord, {"memory": 0}),), who="user"),
    Mutant("no CPU time for the watcher to hold", (change(ModeRecord, {"cpu_ns": 0}),)),
    Mutant("no affinity", (drop(Affinity),)),
    Mutant("scratch space without a size", (change(Tmpfs, {"options": "mode=0755"}),)),
    Mutant(
        "scratch space without a number of files",
        (change(Tmpfs, {"options": lambda options: options.partition(",nr_inodes")[0]}),),
    ),
    Mutant(
        "terminals without a share",
        source={"mounts.c": [('"newinstance,ptmxmode=0666,mode=620,max=256"', '"newinstance,ptmxmode=0666,mode=620"')]},
    ),
    Mutant("no limit on inotify instances", (drop(Sysctl, name="user/max_inotify_instances"),)),
    Mutant("no limit on inotify watches", (drop(Sysctl, name="user/max_inotify_watches"),)),
    Mutant("user namespaces inside", (drop(Sysctl, name="user/max_user_namespaces"),)),
    Mutant(
        "control groups not joined",
        who="root",
        source={
            "execute.c": [("if ((r = join_groups (c)) < 0 || (r = set_limits (c)) < 0)", "if ((r = set_limits (c)) < 0)")]
        },
    ),
    # An ordinary user has none.
    Mutant("no control group", patches=(("isandbox_backends.seccomp.backend:hold", _no_groups),), who="root"),
    Mutant(
        "the watcher does not look",
        source={"serve.c": [("if (commands && look_ns && now_ns () >= look_ns)", "if (0)")]},
    ),
)

ENDINGS = (
    Mutant(
        "what a command started lives on",
        source={"sweep.c": [("SYS (kill, p.list[i].pid, SIGKILL);", ";")]},
    ),
    Mutant(
        "commands in the helper's session",
        source={
            "execute.c": [
                ("(r = SYS0 (setsid)) < 0 || (r = become_command_user (c)) < 0", "(r = become_command_user (c)) < 0")
            ]
        },
    ),
    Mutant("the helper in the caller's session", source={"launch.c": [('must (SYS0 (setsid), "session", "");', "")]}),
    Mutant(
        "a keeper that is no subreaper",
        source={"keeper.c": [("(r = SYS (prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) < 0", "(r = 0) < 0")]},
    ),
    Mutant(
        "a stop is taken for an end",
        source={
            "keeper.c": [
                ("info, WEXITED | WNOHANG | WNOWAIT | __WALL, 0)", "info, WEXITED | 2 | WNOHANG | WNOWAIT | __WALL, 0)"),
                ("if (info->pid == 0 || info->code < CLD_TRAPPED)", "if (1)"),
                ("SYS (wait4, pid, &status, __WALL, 0);", "SYS (wait4, pid, &status, __WALL | 2, 0);"),
            ]
        },
    ),
    Mutant("the umask of nobody", source={"execute.c": [("SYS (umask, 022);", "")]}),
    Mutant(
        "signals as the host has them",
        source={"main.c": [("if (signal != SIGKILL && signal != SIGSTOP)", "if (0)")]},
    ),
)


def _with_the_hosts(environment: Mapping[str, str]) -> Mapping[str, str]:
    """As it is when a sandbox is made, not now."""
    return ChainMap(dict(environment), cast("dict[str, str]", os.environ))


def _program_with_environment(native: Callable[[], HelperProgram]) -> Callable[[], HelperProgram]:
    return lambda: replace(native(), env=dict(os.environ))


_KEPT_AT_START = (re.compile(r'must \(ids_close_others \(\), [^;]*"close descriptors"\);'), "")
_KEPT_BY_KEEPER = (
    "return close_all_but (KEEPER_SCRIPT_FD + 1, kept, sizeof kept / sizeof kept[0]);",
    "(void) close_all_but;\n  return 0;",
)
_KEPT_BY_COMMAND = ("SYS (close_range, c->fd_script >= 0 ? 4 : 3, ~0u, 0);", "")

HOST = (
    Mutant(
        "the host's environment in commands", patches=(("isandbox_backends.seccomp.backend:ENVIRONMENT", _with_the_hosts),)
    ),
    Mutant(
        "the host's environment in the helper",
        patches=(("isandbox_backends._shared.start:_native", _program_with_environment),),
    ),
    Mutant("descriptors of the host kept by the helper", source={"main.c": [_KEPT_AT_START]}),
    Mutant("descriptors of the helper kept by keepers", source={"keeper.c": [_KEPT_BY_KEEPER]}),
    Mutant("descriptors of keepers kept by commands", source={"execute.c": [_KEPT_BY_COMMAND]}),
    Mutant(
        "all descriptors kept",
        source={"main.c": [_KEPT_AT_START], "keeper.c": [_KEPT_BY_KEEPER], "execute.c": [_KEPT_BY_COMMAND]},
    ),
)
