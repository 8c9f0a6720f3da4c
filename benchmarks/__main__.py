"""``python -m benchmarks [QUESTION ...]``: measure, print, and keep the figures as JSON."""

from __future__ import annotations

import argparse
import json
import os
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.machine import facts, heading
from benchmarks.measure import table

QUESTIONS = ("start", "stay", "exec", "output", "importtime", "cli")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What isandbox costs, beside its peers.")
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"one of {', '.join(QUESTIONS)}; all by default")
    parser.add_argument("--rounds", type=int, help="rounds instead of each question's own number")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="directory of the JSON file")
    options = parser.parse_args()
    unknown = set(options.questions) - set(QUESTIONS)
    if unknown:
        parser.error(f"no such question: {', '.join(sorted(unknown))}; there are {', '.join(QUESTIONS)}")
    machine = facts()
    print(heading(machine), flush=True)
    answers: dict[str, Any] = {}
    for name in options.questions or QUESTIONS:
        answer = import_module(f"benchmarks.{name}").run(options.rounds)
        answers[name] = answer.as_json()
        print(f"\n{name}\n{table(answer)}")
        for line in [*answer.notes, *map(str, answer.bars)]:
            print(f"{name}: {line}", flush=True)
    print(f"\n{_keep(options.out, {'machine': machine, 'answers': answers})}")


def _keep(directory: Path, report: dict[str, Any]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = directory / f"{stamp}-uid{os.geteuid()}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path


main()
