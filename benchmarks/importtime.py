"""What does ``import isandbox`` cost beside ``import asyncio``?"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.measure import Answer, interleave

if TYPE_CHECKING:
    from benchmarks.measure import Case

ROUNDS = 60
BAR = 1.80
_INSIDE = "import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"


def run(rounds: int | None = None) -> Answer:
    """The bar is on a whole fresh interpreter; "inside" is the import statement alone, measured in it."""
    inside: dict[str, list[float]] = {"isandbox inside": [], "asyncio inside": []}

    def fresh(module: str) -> Case:
        def measure() -> float:
            code = _INSIDE.format(module=module)
            start = time.perf_counter()
            said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, cwd="/").stdout
            took = (time.perf_counter() - start) * 1e3
            if f"{module} inside" in inside:
                inside[f"{module} inside"].append(float(said) * 1e3)
            return took

        return measure

    cases = {"isandbox": fresh("isandbox"), "asyncio": fresh("asyncio"), "interpreter": fresh("sys")}
    answer = Answer("importtime", "ms", interleave(cases, rounds or ROUNDS))
    answer.samples.update({name: values[1:] for name, values in inside.items()})
    answer.compare("isandbox", "asyncio", BAR)
    return answer
