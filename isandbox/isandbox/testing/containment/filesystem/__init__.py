"""Group A: files of the host, mounts, devices, control files, sockets and descriptors."""

from isandbox.testing.containment.filesystem import (
    calls as calls,
    descriptors as descriptors,
    devices as devices,
    ipc as ipc,
    kernel as kernel,
    links as links,
    neighbours as neighbours,
    pinned as pinned,
    privileges as privileges,
    proc as proc,
    secrets as secrets,
    sockets as sockets,
)
