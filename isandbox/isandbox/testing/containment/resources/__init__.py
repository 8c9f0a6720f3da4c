"""Group C: memory, disk, processes, output and time.

Each bomb has a bound of its own on bytes, counts and seconds, so that a sandbox that does not hold it is the only one to suffer.
"""

from isandbox.testing.containment.resources import commands as commands
from isandbox.testing.containment.resources import counted as counted
from isandbox.testing.containment.resources import cpu as cpu
from isandbox.testing.containment.resources import descriptors as descriptors
from isandbox.testing.containment.resources import disk as disk
from isandbox.testing.containment.resources import filesize as filesize
from isandbox.testing.containment.resources import lifecycle as lifecycle
from isandbox.testing.containment.resources import logs as logs
from isandbox.testing.containment.resources import memory as memory
from isandbox.testing.containment.resources import objects as objects
from isandbox.testing.containment.resources import output as output
from isandbox.testing.containment.resources import processes as processes
