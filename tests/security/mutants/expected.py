"""What becomes of each mutant. Found by `find.py`, held by `test_mutants.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Fate:
    """``killers``: probes that turn red, the quickest first. ``refused``: a part of what the start says, also when the layers are
    not looked at. ``quick``: tried in each run.

    ``held_by``: the layer that holds without this one, so that no probe turns red by it alone. ``proof``: the mutants without
    which, together with this one, ``killers`` do turn red, and do not without this one. A fate without proof says why there can
    be none on the machine that this was found on.
    """

    killers: tuple[str, ...] = ()
    refused: str = ""
    held_by: str = ""
    proof: tuple[str, ...] = ()
    quick: bool = False


def killed(*probes: str, quick: bool = False) -> Fate:
    return Fate(killers=probes, quick=quick)


def refused(text: str, *, quick: bool = False) -> Fate:
    return Fate(refused=text, quick=quick)


def held(by: str, *, without: tuple[str, ...] = (), red: tuple[str, ...] = (), quick: bool = False) -> Fate:
    """``without``: further mutants. ``red``: the probes that then turn red."""
    return Fate(killers=red, held_by=by, proof=without, quick=quick)
