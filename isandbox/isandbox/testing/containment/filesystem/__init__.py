"""Group A: files of the host, mounts, devices, control files, sockets and descriptors."""

from isandbox.testing.containment.filesystem import neighbours as neighbours
from isandbox.testing.containment.filesystem import proc as proc
from isandbox.testing.containment.filesystem import secrets as secrets
