"""Group A: files of the host, mounts, devices, control files, sockets and descriptors."""

from isandbox.testing.containment.filesystem import calls as calls
from isandbox.testing.containment.filesystem import crashes as crashes
from isandbox.testing.containment.filesystem import descriptors as descriptors
from isandbox.testing.containment.filesystem import devices as devices
from isandbox.testing.containment.filesystem import host as host
from isandbox.testing.containment.filesystem import ipc as ipc
from isandbox.testing.containment.filesystem import kernel as kernel
from isandbox.testing.containment.filesystem import leases as leases
from isandbox.testing.containment.filesystem import links as links
from isandbox.testing.containment.filesystem import neighbours as neighbours
from isandbox.testing.containment.filesystem import pinned as pinned
from isandbox.testing.containment.filesystem import privileges as privileges
from isandbox.testing.containment.filesystem import proc as proc
from isandbox.testing.containment.filesystem import programs as programs
from isandbox.testing.containment.filesystem import secrets as secrets
from isandbox.testing.containment.filesystem import sockets as sockets
