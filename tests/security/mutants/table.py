"""All mutants, by layer, for whoever runs this."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from isandbox_mutants.calls import FILTER
from isandbox_mutants.frame import Mutant, together
from isandbox_mutants.limits import ENDINGS, HOST, LIMITS
from isandbox_mutants.privilege import IDS, LANDLOCK, PRIVILEGES
from isandbox_mutants.view import MOUNTS, NAMESPACES


def _by_name(*names: str) -> Mutant:
    """Several in one, of any layer."""
    known = {mutant.name: mutant for mutant in (*NAMESPACES, *MOUNTS, *IDS, *LANDLOCK)}
    return together(*(known[name] for name in names))


# Programs are root's: their mode says what the mount says, and Landlock says it again.
_USR_OF_ROOT = replace(
    _by_name(
        "/usr writable", "no Landlock", "commands with the helper's uid", "no user namespace, and a helper that does not look"
    ),
    name="/usr writable, for the host's root and without Landlock",
    who="root",
)
_WHO = {"both", "root" if os.geteuid() == 0 else "user"}
LAYERS: Mapping[str, Sequence[Mutant]] = {
    layer: [mutant for mutant in mutants if mutant.who in _WHO]
    for layer, mutants in {
        "namespaces": NAMESPACES,
        "mounts": [*MOUNTS, _USR_OF_ROOT],
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
