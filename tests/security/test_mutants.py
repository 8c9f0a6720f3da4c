"""What holds in a sandbox is held by its mechanisms: each is taken away in turn, and a probe has to notice."""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from isandbox_mutants.expected import Fate
    from isandbox_mutants.lab import Lab, Trial

_DIRECTORY = Path(__file__).parent / "mutants"
ROOT = os.geteuid() == 0


def _package() -> None:
    """The directory as a package: there is none below tests."""
    package = ModuleType("isandbox_mutants")
    package.__path__ = [str(_DIRECTORY)]
    sys.modules.setdefault("isandbox_mutants", package)


_package()
build, frame, laboratory, table, expected = (
    importlib.import_module(f"isandbox_mutants.{name}") for name in ("build", "frame", "lab", "table", "expected")
)
FATES: Mapping[str, Fate] = expected.fates(table.MUTANTS, root=ROOT)
# Every layer has some that run each time: where nothing is compiled and the probe is quick.
QUICK = [name for name, fate in FATES.items() if fate.quick]


@pytest.fixture(scope="class")
def lab(tmp_path_factory: pytest.TempPathFactory, sandbox_tmp: Path) -> Lab:
    """Below the directory that other users can walk through: as root the helper is executed by root, but its sources are kept
    where the tests' own files are.
    """
    if build.compiler() is None:
        pytest.skip("cc is not installed: apt-get install gcc libc6-dev")
    return laboratory.Lab(build.Workshop(tmp_path_factory.mktemp("mutants"), build.product_flags()))


async def came_true(lab: Lab, name: str) -> str:
    """``killed``, ``refused``, ``equivalent`` or ``unproved``; raises `AssertionError` when it is not what the table says."""
    mutant, fate = table.MUTANTS[name], FATES[name]
    trial: Trial = await lab.try_out(mutant, fate.killers)
    if fate.refused:
        assert fate.refused in trial.refused, str(trial)
        return "refused"
    assert not trial.refused, str(trial)
    if not fate.held_by:
        assert trial.killer, str(trial)
        return "killed"
    assert not trial.killer, f"not held by anything else: {trial}"
    if not fate.proof:
        return "unproved"
    others = [table.MUTANTS[other] for other in fate.proof]
    without: Trial = await lab.try_out(frame.together(*others), fate.killers)
    assert not without.refused, str(without)
    both: Trial = await lab.try_out(frame.together(mutant, *others), fate.killers)
    assert both.killer, f"not proved: {both}"
    if fate.said:
        assert fate.said in both.found, f"not proved: {both.found}"
        assert fate.said not in without.found, f"{name} plays no part: {without.found}"
    else:
        assert not without.killer, f"{name} plays no part: {without}"
    return "equivalent"


@pytest.mark.native
class TestMutants:
    @pytest.mark.parametrize("name", QUICK)
    async def test_a_mechanism_that_is_taken_away_is_noticed(self, lab: Lab, name: str) -> None:
        """Without one mechanism a probe turns red, the sandbox does not start, or another layer is proved to hold."""
        await came_true(lab, name)

    def test_every_layer_is_tried_each_time(self) -> None:
        """No layer is left to the long run alone."""
        assert [
            layer for layer, mutants in table.LAYERS.items() if mutants and not any(m.name in QUICK for m in mutants)
        ] == []


@pytest.mark.full
@pytest.mark.native
@pytest.mark.timeout(1200)
async def test_all_mutants(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Each mechanism has a mutant that a probe kills, that does not start, or of which the table says what else holds."""
    fates: dict[str, str] = {}
    wrong, at_start = [], 0
    for name, mutant in table.MUTANTS.items():
        try:
            fates[name] = await came_true(lab, name)
        except AssertionError as error:
            fates[name] = "survived"
            wrong.append(str(error))
        at_start += await laboratory.seen_at_start(lab, mutant)
    counts = Counter(fates.values())
    with capsys.disabled():
        print(
            f"\nmutants: killed {counts['killed']} of {len(fates)} by probes (refused at start {counts['refused']}, equivalent "
            f"{counts['equivalent']}, not to be told on this machine {counts['unproved']}, survived {counts['survived']}); with the "
            f"start's own look at the layers {at_start} do not start"
        )
    assert not wrong, "\n".join(wrong)
