"""All mutants, by layer, for whoever runs this."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from isandbox_mutants.calls import FILTER
from isandbox_mutants.limits import ENDINGS, HOST, LIMITS
from isandbox_mutants.privilege import IDS, LANDLOCK, PRIVILEGES
from isandbox_mutants.view import MOUNTS, NAMESPACES

if TYPE_CHECKING:
    from isandbox_mutants.frame import Mutant

_WHO = {"both", "root" if os.geteuid() == 0 else "user"}
LAYERS: Mapping[str, Sequence[Mutant]] = {
    layer: [mutant for mutant in mutants if mutant.who in _WHO]
    for layer, mutants in {
        "namespaces": NAMESPACES,
        "mounts": MOUNTS,
        "ids": IDS,
        "privileges": PRIVILEGES,
        "Landlock": LANDLOCK,
        "filter": FILTER,
        "limits": LIMITS,
        "endings": ENDINGS,
        "what is inherited": HOST,
    }.items()
}
MUTANTS: Mapping[str, Mutant] = {mutant.name: mutant for layer in LAYERS.values() for mutant in layer}
