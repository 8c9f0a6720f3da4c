"""Which probes turn red for which mutant: for whoever fills the table in. ``find.py [--probes A,B] [--layer NAME] [MUTANT ...]``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType


def package(directory: Path) -> None:
    """This directory as `isandbox_mutants`: there is no package below tests."""
    found = ModuleType("isandbox_mutants")
    found.__path__ = [str(directory)]
    sys.modules["isandbox_mutants"] = found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mutants", nargs="*")
    parser.add_argument("--probes", default="A,B", help="beginnings of ids; B09-record for the posture's")
    parser.add_argument("--layer", default="")
    options = parser.parse_args()
    package(Path(__file__).parent)
    from isandbox_mutants.build import Workshop, product_flags
    from isandbox_mutants.lab import RECORD, Lab
    from isandbox_mutants.later import LATER
    from isandbox_mutants.table import LAYERS, MUTANTS

    from isandbox.testing.containment import all_probes

    begins = tuple(options.probes.split(","))
    probes = [name for name in (*(probe.id for probe in all_probes()), LATER, RECORD) if name.startswith(begins)]
    chosen = [MUTANTS[name] for name in options.mutants] or list(LAYERS.get(options.layer) or MUTANTS.values())
    with tempfile.TemporaryDirectory(prefix="workshop-of-mutants-") as directory:
        os.chmod(directory, 0o755)  # noqa: S103
        lab = Lab(Workshop(Path(directory), product_flags()))
        for mutant in chosen:
            try:
                print(await lab.try_out(mutant, probes, all_of_them=True), flush=True)
            except AssertionError as error:
                print(f"{mutant.name}: {error}"[:300], flush=True)


if __name__ == "__main__":
    asyncio.run(main())
