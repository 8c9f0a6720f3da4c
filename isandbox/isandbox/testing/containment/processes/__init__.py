"""Group B: processes, signals, tracing, namespaces and the kernel's calls."""

from isandbox.testing.containment.processes import crowds as crowds
from isandbox.testing.containment.processes import kernel as kernel
from isandbox.testing.containment.processes import keyrings as keyrings
from isandbox.testing.containment.processes import lifetime as lifetime
from isandbox.testing.containment.processes import namespaces as namespaces
from isandbox.testing.containment.processes import posture as posture
from isandbox.testing.containment.processes import protocols as protocols
from isandbox.testing.containment.processes import refusals as refusals
from isandbox.testing.containment.processes import signalling as signalling
from isandbox.testing.containment.processes import surface as surface
from isandbox.testing.containment.processes import terminal as terminal
from isandbox.testing.containment.processes import tracing as tracing
from isandbox.testing.containment.processes import visibility as visibility
