"""``python -m benchmarks.containment [--only A,B] [--write]``: the probes against isandbox and other tools.

The attacks really run, and other tools' root may be the host's: root is refused.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.containment.report import Column, page
from benchmarks.containment.tool import Tool
from benchmarks.containment.tools import TOOLS
from benchmarks.machine import facts
from isandbox import __version__
from isandbox.testing.containment import BackendTarget, Finding, Probe, all_probes, run_probe

PAGE = Path(__file__).parents[2] / "docs" / "containment.md"
# Group F is about the port itself, which other tools do not have.
GROUPS = ("A", "B", "C")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.containment", description="What other sandboxes hold.")
    parser.add_argument("--only", default=",".join(GROUPS), help="beginnings of probe ids, by commas")
    parser.add_argument("--tools", default="", help="beginnings of tools' names, by commas")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} in docs")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    options = parser.parse_args()
    if os.geteuid() == 0:
        parser.error("run it as an ordinary user: the attacks really run")
    only = tuple(options.only.split(","))
    # What every backend owes by the port's contract (time-outs, sizes, output) would be a question about the adapter here.
    probes = [probe for probe in all_probes() if probe.id.startswith(only) and probe.claim != "interface"]
    wanted = tuple(options.tools.split(","))
    columns, left_out = asyncio.run(_ask_all([tool for tool in TOOLS if tool.name.startswith(wanted)], probes))
    if options.write:
        options.out.write_text(page(columns, facts(), left_out))


async def _ask_all(tools: Sequence[Tool], probes: Sequence[Probe]) -> tuple[list[Column], dict[str, str]]:
    own = BackendTarget("seccomp")
    await own.look()
    found = {probe.id: await _ask("isandbox seccomp", probe, own) for probe in probes}
    columns = [Column("isandbox seccomp", __version__, '`create_sandbox("seccomp")`', found)]
    left_out = {}
    for tool in tools:
        if (missing := tool.missing()) is not None:
            print(f"{tool.name}: left out: {missing}", file=sys.stderr)
            left_out[tool.name] = missing
            continue
        found = {probe.id: await _ask(tool.name, probe, tool) for probe in probes}
        columns.append(Column(tool.name, tool.version(), tool.described(), found))
    return columns, left_out


async def _ask(name: str, probe: Probe, target: BackendTarget | Tool) -> Finding:
    try:
        found = await run_probe(probe, target)
    except Exception as error:  # a probe that cannot be put to a tool says nothing about it, and the rest goes on
        found = Finding(probe.id, probe.title, probe.group, "VACUOUS", detail=f"{type(error).__name__}: {error}"[:300])
    print(f"{name:20} {found.probe:14} {found.outcome:12} {found.mechanism or found.detail}", flush=True)
    return found


main()
