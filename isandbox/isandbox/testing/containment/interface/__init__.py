"""Group F: the port itself: paths, names, archives, environments, what comes back.

Not here: tenants, idempotency keys and signed addresses (F18, F20, F26) are a gateway's. That a hostile helper is not believed
is a matter of its protocol, and so of a backend's own tests.
"""

from isandbox.testing.containment.interface import answers as answers
from isandbox.testing.containment.interface import archives as archives
from isandbox.testing.containment.interface import bounds as bounds
from isandbox.testing.containment.interface import environment as environment
from isandbox.testing.containment.interface import identity as identity
from isandbox.testing.containment.interface import injection as injection
from isandbox.testing.containment.interface import names as names
from isandbox.testing.containment.interface import paths as paths
from isandbox.testing.containment.interface import races as races
from isandbox.testing.containment.interface import special as special
