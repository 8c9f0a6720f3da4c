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
FATES: Mapping[str, Fate] = expected.fates(table.MUTANTS, root=ROOT, priorities=laboratory.may_have_priorities())
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
    """How it was found out, in a word that `told` counts; raises `AssertionError` when it is not as the table says."""
    mutant, fate = table.MUTANTS[name], FATES[name]
    said: str = await laboratory.at_start(lab, mutant)
    trial: Trial = await lab.try_out(mutant, () if fate.proof else fate.killers)
    if fate.refused:
        assert fate.refused in trial.refused, str(trial)
        return "start"
    assert not trial.refused, str(trial)
    # A start that finds out more than the table knows makes the table poorer than the product.
    expected_there = f"the layer {fate.at_start} is not in force" if fate.at_start else ""
    assert expected_there in said if fate.at_start else not said or is_attack(fate), f"{name}: {said or 'starts'}"
    if not fate.held_by:
        assert trial.killer, str(trial)
        return "attack" if trial.killer != laboratory.RECORD else "start" if fate.at_start else "record"
    if fate.proof:
        await proved(lab, name)
        return "start" if fate.at_start else "proved"
    assert not trial.killer, f"not held by anything else: {trial}"
    return "start" if fate.at_start else "explained"


def is_attack(fate: Fate) -> bool:
    """Whether the start need not find it out: a probe's attack does."""
    return not fate.held_by and fate.killers != (laboratory.RECORD,)


async def proved(lab: Lab, name: str) -> None:
    """The mechanism alone, and what else holds alone, are not seen by the probes; without both they turn red."""
    mutant, fate = table.MUTANTS[name], FATES[name]
    others = [table.MUTANTS[other] for other in fate.proof]
    alone: Trial = await lab.try_out(mutant, fate.killers)
    assert not alone.killer, f"not held by anything else: {alone}"
    without: Trial = await lab.try_out(frame.together(*others), fate.killers)
    assert not without.refused, str(without)
    both: Trial = await lab.try_out(frame.together(mutant, *others), fate.killers)
    assert both.killer, f"not proved: {both}"
    if fate.said:
        assert fate.said in both.found, f"not proved: {both.found}"
        assert fate.said not in without.found, f"{name} plays no part: {without.found}"
    else:
        assert not without.killer, f"{name} plays no part: {without}"


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
    """Each mechanism has a mutant that a probe or the start finds out, or of which the table says what else holds."""
    fates: dict[str, str] = {}
    wrong = []
    for name in table.MUTANTS:
        try:
            fates[name] = await came_true(lab, name)
        except AssertionError as error:
            fates[name] = "survived"
            wrong.append(str(error))
    with capsys.disabled():
        print(f"\n{told(Counter(fates.values()), len(fates))}")
    assert not wrong, "\n".join(wrong)


def told(counts: Counter[str], all_of_them: int) -> str:
    """Each mutant is counted once, for what finds it out first: an attack, the start, the record."""
    probes = counts["attack"] + counts["record"]
    return (
        f"mutants: killed {probes + counts['start']} of {all_of_them} (by probes {probes}, of which by the posture record alone "
        f"{counts['record']}; by the start's own checks {counts['start']}; equivalent, proved {counts['proved']}; not to be told "
        f"here, explained {counts['explained']}; survived {counts['survived']})"
    )
