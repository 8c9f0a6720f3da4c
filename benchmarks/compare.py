"""``python -m benchmarks.compare A.json B.json``: is B worse than A?

Compared is what the bars judge, ratios to a peer of the same run most of them, so that the two runs may have met the
machine in different moods. Medians are printed beside.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

# Both below this part of the bar is no difference that matters: a growth of 0.2 MiB is not twice one of 0.1 MiB.
_NEGLIGIBLE = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description="Exit 1 when B is worse than A.")
    parser.add_argument("a", type=Path)
    parser.add_argument("b", type=Path)
    parser.add_argument("--ratio", type=float, default=1.2, help="how many times A's value B's may be (default: 1.2)")
    options = parser.parse_args()
    a, b = (json.loads(path.read_text())["answers"] for path in (options.a, options.b))
    worse = False
    for question in [name for name in a if name in b]:
        worse |= _compare(question, a[question], b[question], options.ratio)
    for question in sorted(set(a) ^ set(b)):
        print(f"{question}: in one of the files only")
    sys.exit(1 if worse else 0)


def _compare(question: str, a: dict[str, Any], b: dict[str, Any], limit: float) -> bool:
    for case in [name for name in a["cases"] if name in b["cases"]]:
        before, after = a["cases"][case]["median"], b["cases"][case]["median"]
        print(f"{question}: {case} {before:.3f} -> {after:.3f} {a['unit']} ({after / before:.2f} x)")
    worse = False
    for before, after in zip(a["bars"], b["bars"], strict=False):
        least = _NEGLIGIBLE * before["limit"]
        ratio = max(after["value"], least) / max(before["value"], least)
        worse |= ratio > limit
        verdict = "WORSE" if ratio > limit else "ok"
        print(f"{question}: judged {before['value']:.2f} -> {after['value']:.2f} {before['unit']}, {ratio:.2f} x {verdict}")
    return worse


if __name__ == "__main__":
    main()
