"""How long does ``isandbox --help`` take beside the smallest click program?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Answer, interleave, timed

ROUNDS = 40
BAR = 1.50
_BARE = """import click


@click.command()
def main():
    "Do nothing."
"""


def run(rounds: int | None = None) -> Answer:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "bare_click_program.py").write_text(_BARE)
        environment = {**os.environ, "PYTHONPATH": directory}

        def help_of(module: str) -> subprocess.CompletedProcess[bytes]:
            code = f"from {module} import main; main()"
            command = [sys.executable, "-c", code, "--help"]
            return subprocess.run(command, env=environment, cwd="/", capture_output=True, check=False)

        works = help_of("isandbox.cli").returncode == 0
        cases = {
            "isandbox --help": timed(lambda: help_of("isandbox.cli")),
            "bare click --help": timed(lambda: help_of("bare_click_program")),
        }
        answer = Answer("cli", "ms", interleave(cases, rounds or ROUNDS))
    if works:
        answer.compare("isandbox --help", "bare click --help", BAR)
    else:
        answer.notes.append("not judged: isandbox --help does not exit with 0")
    return answer
