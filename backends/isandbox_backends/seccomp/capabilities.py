"""What the `seccomp` backend says of itself."""

from __future__ import annotations

from isandbox.policy import KERNEL, PROTECTIONS, Capabilities, Enforcement, unsupported
from isandbox_backends._shared.lifecycle import LIFE_VERBS

_MEMORY_NOTE = (
    "mapped memory of all processes, swap and the tmpfs mounts; pages that processes share count once for each of them, and "
    "what nobody has mapped (a memfd, full pipes and sockets) is not seen"
)
_CPU_NOTE = "a child that nobody waits for, because its parent ignores SIGCHLD, takes its CPU time with it when it ends"
_DENY_NOTE = (
    "paths of files and directories that exist, no patterns; a file that the host replaces meanwhile is seen, a directory's new "
    "entries are not"
)
_WEAKNESSES = (
    "shares the host's kernel",
    "without a control group, memory and CPU time can be overshot between two looks, of 50 ms at most",
    "a UNIX socket of the host in a directory that is mounted can be connected to, also when the mount is read-only",
    "for an ordinary user without subordinate ids: commands share the helper's uid, and keep the user's groups for files in mounts",
)

CAPABILITIES = Capabilities(
    isolation="os",
    quotas={
        "pids": Enforcement(
            "kernel", note="with one id, commands that start or end meanwhile shift it by one each", told="looked"
        ),
        "open_files": Enforcement("kernel", told="looked"),
        "file_size": Enforcement("kernel", told="exit"),
        "memory": Enforcement("watched", period=0.05, note=_MEMORY_NOTE),
        "cpu_time": Enforcement("watched", period=0.05, note=_CPU_NOTE),
        "cpus": Enforcement("kernel", note="affinity, which commands may then not change"),
        "output": KERNEL,
        "disk": Enforcement("kernel", note="where the workspace is the sandbox's own", told="looked"),
    },
    policies={
        "workspace.rw": KERNEL,
        "workspace.ro": KERNEL,
        "workspace.overlay": unsupported("use mode='ro' or 'rw'"),
        "workspace.copy": unsupported("copy the directory yourself and use mode='rw'"),
        "workspace.deny": Enforcement("kernel", note=_DENY_NOTE),
        "mounts": KERNEL,
        "network.none": KERNEL,
        "network.hosts": unsupported("leave network out: there is none inside"),
    },
    verbs=LIFE_VERBS | {"attach", "make_link", "terminal"},
    weaknesses=_WEAKNESSES,
    protections=PROTECTIONS,
)
