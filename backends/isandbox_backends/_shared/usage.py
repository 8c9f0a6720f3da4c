"""What a process tree of the host uses, by psutil."""

from __future__ import annotations

import psutil

from isandbox.records import Metrics

_KEEPER = "isandbox-keeper"  # backends/helper/keeper.c names itself so; 15 characters, all that the kernel keeps


def tree_metrics(pid: int) -> Metrics | None:
    """The tree below ``pid``, which is the helper: it and its keepers, which share its memory, do not count. ``None``: it ended."""
    try:
        root = psutil.Process(pid)
        if root.status() == psutil.STATUS_ZOMBIE:  # nobody reaps it before the sandbox is closed
            return None
        tree = root.children(recursive=True)
    except psutil.NoSuchProcess:
        return None
    count, cpu, memory = 0, 0.0, 0
    for process in tree:
        try:
            with process.oneshot():
                if process.ppid() == pid and process.name() == _KEEPER:
                    continue
                times = process.cpu_times()
                count, cpu, memory = count + 1, cpu + times.user + times.system, memory + process.memory_info().rss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # ended while it was looked at
    return Metrics(processes=count, cpu_time=cpu, memory=memory)
