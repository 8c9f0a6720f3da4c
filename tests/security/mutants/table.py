"""All mutants, by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from isandbox_mutants.calls import FILTER
from isandbox_mutants.limits import ENDINGS, HOST, LIMITS
from isandbox_mutants.privilege import IDS, LANDLOCK, PRIVILEGES
from isandbox_mutants.view import MOUNTS, NAMESPACES

if TYPE_CHECKING:
    from isandbox_mutants.frame import Mutant

LAYERS: Mapping[str, Sequence[Mutant]] = {
    "namespaces": NAMESPACES,
    "mounts": MOUNTS,
    "ids": IDS,
    "privileges": PRIVILEGES,
    "Landlock": LANDLOCK,
    "filter": FILTER,
    "limits": LIMITS,
    "endings": ENDINGS,
    "what is inherited": HOST,
}
MUTANTS: Mapping[str, Mutant] = {mutant.name: mutant for layer in LAYERS.values() for mutant in layer}
