"""Taking turns, summing up, judging: what every question shares."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

# A case does its work once and returns what it measured, most often seconds.
Case = Callable[[], float]


@dataclass(frozen=True)
class Bar:
    """A promise as a number: met when ``value`` is at most ``limit``. ``text`` shows what was compared."""

    text: str
    value: float
    limit: float
    unit: str = "x"

    @property
    def met(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        return f"{self.text}: {self.value:.2f} {self.unit} (bar {self.limit:.2f}) {'met' if self.met else 'missed'}"


@dataclass
class Answer:
    """``samples``: what each case measured, in ``unit``. ``notes``: what a reader has to know beside the numbers."""

    question: str
    unit: str
    samples: dict[str, list[float]]
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def median(self, case: str) -> float:
        return median(self.samples[case])

    def compare(self, case: str, peer: str, limit: float) -> None:
        """Add the bar "``case`` takes at most ``limit`` times what ``peer`` takes", by their medians.

        The ratio of the tenth percentiles goes into the notes: far from that of the medians, the machine was busy.
        """
        ours, theirs = self.median(case), self.median(peer)
        calm = summary(self.samples[case])["p10"] / summary(self.samples[peer])["p10"]
        self.notes.append(f"{case} to {peer} by the tenth percentiles: {calm:.2f} x")
        text = f"{case} {ours:.2f} {self.unit}, {peer} {theirs:.2f} {self.unit}"
        self.bars.append(Bar(text, ours / theirs, limit))

    def as_json(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "cases": {name: {**summary(values), "samples": values} for name, values in self.samples.items()},
            "bars": [{"text": b.text, "value": b.value, "limit": b.limit, "unit": b.unit, "met": b.met} for b in self.bars],
            "notes": self.notes,
        }


def interleave(cases: Mapping[str, Case], rounds: int, *, every: Mapping[str, int] | None = None) -> dict[str, list[float]]:
    """Run each case once a round, in a new random order every time, after one round that does not count.

    The machine's moods then fall on all cases alike. ``every`` names slow cases that only have a turn in each n-th round.
    """
    every = every or {}
    for case in cases.values():
        case()
    samples: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds):
        turn = [name for name in cases if number % every.get(name, 1) == 0]
        random.shuffle(turn)
        for name in turn:
            samples[name].append(cases[name]())
    return samples


def timed(work: Callable[[], object]) -> Case:
    """A case that measures how many milliseconds ``work`` takes."""

    def case() -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) * 1e3

    return case


def summary(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    tenth = ordered[max(0, math.ceil(len(ordered) / 10) - 1)]
    return {"n": len(ordered), "median": median(ordered), "p10": tenth, "min": ordered[0]}


def table(answer: Answer) -> str:
    width = max(map(len, answer.samples))
    lines = [f"  {'':{width}}  {'median':>9} {'p10':>9} {'min':>9} {'n':>5}  [{answer.unit}]"]
    for name, values in answer.samples.items():
        s = summary(values)
        lines.append(f"  {name:{width}}  {s['median']:9.3f} {s['p10']:9.3f} {s['min']:9.3f} {s['n']:5.0f}")
    return "\n".join(lines)
